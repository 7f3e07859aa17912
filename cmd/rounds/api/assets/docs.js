// Renders /openapi.json. Text is only ever set as text, never as markup.
"use strict";

const methods = ["get", "put", "post", "delete"];

// The page's own words. What /openapi.json says of routes and fields is English.
const chinese = {
  " required": " 必填", "default ": "默认 ", "any value": "任意值", "time": "时间", " to ": " 到 ", " or ": " 或 ",
  "Parameters": "参数", "Request": "请求", "Failures": "失败", "Try it": "试一试",
  "Token": "令牌", "Show": "显示", "This API needs a token.": "这个 API 需要令牌。",
  "The description could not be loaded: ": "无法加载接口说明：",
  "": "接口的说明只有英文。",
};

function t(text) {
  return document.documentElement.lang === "zh-CN" ? chinese[text] ?? text : text;
}

function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function paragraphs(text) {
  return (text || "").split("\n\n").filter(Boolean).map((part) => el("p", {}, part));
}

// What a schema refers to, and what the reader is to call it.
function resolve(doc, schema) {
  const seen = new Set();
  while (schema && schema.$ref && !seen.has(schema.$ref)) {
    seen.add(schema.$ref);
    schema = doc.components.schemas[schema.$ref.split("/").pop()];
  }
  return schema || {};
}

function typeOf(doc, schema) {
  const s = resolve(doc, schema);
  if (s.enum) return s.enum.map((v) => JSON.stringify(v)).join(" | ");
  if (s.oneOf) return s.oneOf.map((one) => typeOf(doc, one)).join(t(" or "));
  const type = Array.isArray(s.type) ? s.type.filter((t) => t !== "null").join(" | ") : s.type;
  if (type === "array") return "array of " + typeOf(doc, s.items);
  if (type === "object" && s.additionalProperties && s.additionalProperties.type) return "object of " + s.additionalProperties.type + "s";
  if (s.format === "date-time") return t("time");
  return type || t("any value");
}

function limits(s) {
  const parts = [];
  if (s.minimum !== undefined || s.maximum !== undefined) parts.push((s.minimum ?? "…") + t(" to ") + (s.maximum ?? "…"));
  if (s.default !== undefined) parts.push(t("default ") + JSON.stringify(s.default));
  return parts.join(", ");
}

function row(doc, name, schema, required, description) {
  const s = resolve(doc, schema);
  const notes = [description || schema.description || s.description || "", limits(s)].filter(Boolean).join(" — ");
  return el("tr", {},
    el("td", {}, el("code", {}, name), required ? el("span", { class: "required" }, t(" required")) : ""),
    el("td", {}, el("span", { class: "type" }, typeOf(doc, schema)), notes ? el("div", {}, notes) : ""));
}

// The fields of an object, those of objects within it under its name.
function fields(doc, schema, prefix, depth, rows) {
  const s = resolve(doc, schema);
  for (const one of s.oneOf || []) fields(doc, one, prefix, depth, rows);
  for (const [name, property] of Object.entries(s.properties || {})) {
    rows.push(row(doc, prefix + name, property, (s.required || []).includes(name)));
    const inner = resolve(doc, property);
    if (depth > 3) continue;
    if (inner.properties) fields(doc, inner, prefix + name + ".", depth + 1, rows);
    if (inner.items) fields(doc, inner.items, prefix + name + "[].", depth + 1, rows);
  }
  return rows;
}

function content(doc, title, body) {
  const nodes = [];
  for (const [type, media] of Object.entries((body && body.content) || {})) {
    nodes.push(el("h4", {}, title + " · " + type));
    const rows = fields(doc, media.schema || {}, "", 0, []);
    if (rows.length) nodes.push(el("table", {}, ...rows));
    else if (media.schema && media.schema.description) nodes.push(el("p", { class: "faint" }, media.schema.description));
  }
  return nodes;
}

function example(doc, schema) {
  const s = resolve(doc, schema);
  const value = {};
  for (const [name, property] of Object.entries(s.properties || {})) {
    const p = resolve(doc, property);
    if (p.examples) value[name] = p.examples[0];
  }
  return JSON.stringify(value);
}

function curl(doc, method, path, operation) {
  const words = ["curl"];
  if (method !== "get") words.push("-X " + method.toUpperCase());
  if (doc.security && !operation.security) words.push('-H "Authorization: Bearer $ROUNDS_API_TOKEN"');
  const body = operation.requestBody && operation.requestBody.content;
  if (body && body["application/json"]) words.push("-d '" + example(doc, body["application/json"].schema) + "'");
  if (body && body["application/x-ndjson"]) words.push("-T accounts.ndjson");
  words.push(JSON.stringify(location.origin + path.replace("{id}", "acme-news")));
  return words.join(" ");
}

function section(doc, method, path, operation) {
  const nodes = [
    el("h3", {}, operation.summary || path),
    el("p", { class: "route" }, el("span", { class: "method " + method }, method.toUpperCase()), el("span", { class: "path" }, path)),
    ...paragraphs(operation.description),
  ];
  const parameters = operation.parameters || [];
  if (parameters.length) {
    nodes.push(el("h4", {}, t("Parameters")));
    nodes.push(el("table", {}, ...parameters.map((p) => row(doc, p.name, p.schema || {}, p.required, p.description))));
  }
  nodes.push(...content(doc, t("Request"), operation.requestBody));
  const failures = [];
  for (const [status, response] of Object.entries(operation.responses || {})) {
    if (status >= "400") failures.push(status + " " + response.description);
    else if (response.content) nodes.push(...content(doc, status + " " + response.description, response));
    else nodes.push(el("h4", {}, status + " " + response.description));
  }
  if (failures.length) nodes.push(el("h4", {}, t("Failures")), el("p", { class: "faint" }, failures.join(" · ")));
  nodes.push(el("h4", {}, t("Try it")), el("pre", { tabindex: "0" }, curl(doc, method, path, operation)));
  return el("section", { id: operation.operationId }, ...nodes);
}

function render(doc) {
  const page = document.getElementById("page");
  const contents = document.getElementById("contents");
  page.replaceChildren(el("h1", {}, doc.info.title + " ", el("small", {}, doc.info.version)), ...paragraphs(t("")), ...paragraphs(doc.info.description),
    el("p", {}, el("a", { href: "/openapi.json" }, "openapi.json")));
  contents.replaceChildren(el("strong", {}, doc.info.title));
  for (const tag of doc.tags) {
    page.append(el("h2", {}, tag.name), el("p", { class: "faint" }, tag.description || ""));
    contents.append(el("h2", {}, tag.name));
    for (const [path, item] of Object.entries(doc.paths)) {
      for (const method of methods) {
        const operation = item[method];
        if (!operation || !(operation.tags || []).includes(tag.name)) continue;
        page.append(section(doc, method, path, operation));
        contents.append(el("a", { href: "#" + operation.operationId }, operation.summary || path));
      }
    }
  }
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

// The description is for those who may use the API. The token that they give is
// kept in this page only.
function ask() {
  const input = el("input", { type: "password", "aria-label": t("Token"), placeholder: t("Token"), autocomplete: "off" });
  const form = el("form", {}, input, el("button", {}, t("Show")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    load(input.value);
  });
  document.getElementById("page").replaceChildren(el("h1", {}, "rounds"), el("p", {}, t("This API needs a token.")), form);
  input.focus();
}

async function load(token) {
  try {
    const reply = await fetch("/openapi.json", token ? { headers: { Authorization: "Bearer " + token } } : {});
    if (reply.status === 401) return ask();
    if (!reply.ok) throw new Error(reply.status + " " + reply.statusText);
    render(await reply.json());
  } catch (error) {
    document.getElementById("page").replaceChildren(el("h1", {}, "rounds"), el("p", {}, t("The description could not be loaded: ") + error.message));
  }
}

load("");
