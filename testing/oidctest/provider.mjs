// Runs oidc-provider, with the specification's defaults: what it knows of a person is at
// userinfo, and not in the ID token. Its pages for signing in take every name and password.
//
//   node provider.mjs MODULES BASE [pushed]
//
// MODULES is the folder node_modules. BASE is the URL of the service, of which the addresses
// to return to are registered. With "pushed" it takes only sign-ins that were pushed to it.
// It prints its issuer, and ends when its input ends.
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, base, pushed] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(join(modules, "oidc-provider/lib/index.js")));

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: "rounds",
      client_secret: "a client's secret: with / and %",
      redirect_uris: [`${base}/signin/callback`],
      post_logout_redirect_uris: [`${base}/signin`],
    }],
    claims: { email: ["email", "email_verified"], profile: ["preferred_username"], groups: ["groups"] },
    cookies: { keys: ["a key of this test alone"] },
    features: { pushedAuthorizationRequests: { enabled: true, requirePushedAuthorizationRequests: pushed === "pushed" } },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, preferred_username: id, groups: ["staff", "ops"] }),
    }),
    // Everything is granted without a question.
    async loadExistingGrant(ctx) {
      const grant = new ctx.oidc.provider.Grant({ accountId: ctx.oidc.session.accountId, clientId: ctx.oidc.client.clientId });
      grant.addOIDCScope("openid email profile groups");
      await grant.save();
      return grant;
    },
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
process.stdin.on("end", () => process.exit(0)).resume();
