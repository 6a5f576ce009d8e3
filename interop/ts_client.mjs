#!/usr/bin/env node
// A real MCP client, from the TypeScript SDK, that prints what it saw of a server as one JSON object.
//
//     ts_client.mjs [options] [--calls JSON | --calls -] -- COMMAND ARG…
//     ts_client.mjs [options] [--calls JSON | --calls -] --url URL [--header 'NAME: VALUE']
//
// The report has the same shape as that of python_client.py; interop/README.md describes it.
// The SDK is taken from $PENTAD_NODE_MODULES, else from .tools/npm/node_modules.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const here = path.dirname(fileURLToPath(import.meta.url));
const modules = process.env.PENTAD_NODE_MODULES ?? path.join(here, '../.tools/npm/node_modules');
const sdk = path.join(modules, '@modelcontextprotocol/sdk');
const load = file => import(pathToFileURL(path.join(sdk, 'dist/esm', file)).href);

const STDERR_TAIL = 4_000;
const MAX_PAGES = 1_000;

const USAGE = `ts_client.mjs [options] -- COMMAND ARG…
ts_client.mjs [options] --url URL
  --url URL                 a server over streamable HTTP, instead of a command
  --header 'NAME: VALUE'    sent with each request
  --calls JSON|-            a list of {"name": …, "arguments": {…}, "cancelAfter"?: seconds}
  --mode legacy             the only mode of this SDK version: initialize
  --repeat N                how often to run the list of calls
  --cancel-after SECONDS    cancel the last call after this long
  --elicit accept|decline|cancel, --elicit-content JSON
                            offer elicitation and answer like this
  --env NAME[=VALUE]        pass a variable on to the server
  --cwd DIR, --client-name NAME, --schemas, --timeout SECONDS, --limit SECONDS`;

function usageError(text) {
  process.stderr.write(`${text}\n${USAGE}\n`);
  process.exit(2);
}

function readArguments() {
  const options = {
    calls: { type: 'string' },
    mode: { type: 'string', default: 'legacy' },
    repeat: { type: 'string', default: '1' },
    'cancel-after': { type: 'string' },
    elicit: { type: 'string' },
    'elicit-content': { type: 'string', default: '{}' },
    env: { type: 'string', multiple: true, default: [] },
    url: { type: 'string' },
    header: { type: 'string', multiple: true, default: [] },
    cwd: { type: 'string' },
    'client-name': { type: 'string', default: 'pentad-interop' },
    schemas: { type: 'boolean', default: false },
    timeout: { type: 'string', default: '60' },
    limit: { type: 'string', default: '150' },
    help: { type: 'boolean', default: false }
  };
  let parsed;
  try {
    parsed = parseArgs({ options, allowPositionals: true });
  } catch (error) {
    usageError(error.message);
  }
  const { values, positionals } = parsed;
  if (values.help) {
    process.stdout.write(`${USAGE}\n`);
    process.exit(0);
  }
  if ((positionals.length === 0) === (values.url === undefined)) {
    usageError('Name one server: a command after --, or --url.');
  }
  if (values.mode !== 'legacy') {
    usageError(`--mode ${values.mode}: this version of the SDK speaks revisions up to 2025-11-25 only.`);
  }
  const text = values.calls === '-' ? readFileSync(0, 'utf8') : values.calls;
  const calls = text === undefined ? [] : JSON.parse(text);
  if (!Array.isArray(calls) || calls.some(call => typeof call?.name !== 'string')) {
    usageError('--calls: expected a JSON list of {"name": …, "arguments": {…}}.');
  }
  return { ...values, calls, command: positionals, env: environment(values.env), header: httpHeaders(values.header) };
}

function httpHeaders(lines) {
  const chosen = {};
  for (const line of lines) {
    const at = line.indexOf(':');
    if (at < 0) usageError(`--header ${line}: write 'NAME: VALUE'.`);
    chosen[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return chosen;
}

/** Returns the variables to add to the few that the SDK passes on by itself. */
function environment(names) {
  const chosen = {};
  for (const name of names) {
    const at = name.indexOf('=');
    const key = at < 0 ? name : name.slice(0, at);
    const value = at < 0 ? process.env[key] : name.slice(at + 1);
    if (value === undefined) usageError(`--env ${key}: not set here; write --env ${key}=VALUE.`);
    chosen[key] = value;
  }
  return chosen;
}

const since = start => Math.round((performance.now() - start) * 1000) / 1000;
const sha256 = bytes => createHash('sha256').update(bytes).digest('hex');

/** Text stands in full; bytes are named by size and hash, so that the report stays readable. */
function describeContent(item) {
  const value = structuredClone(item);
  if (value.type === 'image' || value.type === 'audio') {
    const bytes = Buffer.from(value.data, 'base64');
    delete value.data;
    return { ...value, bytes: bytes.length, sha256: sha256(bytes) };
  }
  if (value.resource?.blob !== undefined) {
    const bytes = Buffer.from(value.resource.blob, 'base64');
    delete value.resource.blob;
    value.resource = { ...value.resource, bytes: bytes.length, sha256: sha256(bytes) };
  }
  return value;
}

async function listTools(client, schemas, timeout) {
  const start = performance.now();
  const tools = [];
  let cursor;
  let pages = 0;
  do {
    const page = await client.listTools(cursor === undefined ? {} : { cursor }, { timeout });
    tools.push(...page.tools);
    cursor = page.nextCursor;
    pages += 1;
  } while (cursor !== undefined && pages < MAX_PAGES);
  return {
    names: tools.map(tool => tool.name),
    bytes: Buffer.byteLength(JSON.stringify(tools)),
    pages,
    ms: since(start),
    tools: schemas ? tools : null
  };
}

async function callTool(client, call, cancelAfter, timeout, McpError) {
  const progress = [];
  const abort = new AbortController();
  const timer =
    cancelAfter === undefined ? undefined : setTimeout(() => abort.abort('cancelled by the client'), cancelAfter * 1000);
  const start = performance.now();
  let seen;
  try {
    const result = await client.callTool({ name: call.name, arguments: call.arguments ?? {} }, undefined, {
      signal: abort.signal,
      timeout,
      resetTimeoutOnProgress: true,
      onprogress: step =>
        progress.push({ progress: step.progress, total: step.total ?? null, message: step.message ?? null })
    });
    seen = {
      outcome: 'result',
      isError: result.isError === true,
      content: (result.content ?? []).map(describeContent),
      structured: result.structuredContent ?? null
    };
  } catch (error) {
    if (abort.signal.aborted) seen = { outcome: 'cancelled' };
    else if (error instanceof McpError) {
      seen = { outcome: 'error', error: { code: error.code, message: error.message, data: error.data } };
    } else seen = { outcome: 'invalid', error: { message: String(error?.message ?? error) } };
  } finally {
    clearTimeout(timer);
  }
  return { name: call.name, ...seen, ms: since(start), progress };
}

async function runCalls(client, asked, timeout, McpError) {
  const seen = [];
  for (let round = 0; round < Number(asked.repeat); round += 1) {
    for (const [position, call] of asked.calls.entries()) {
      const last = position === asked.calls.length - 1;
      const fallback = last && asked['cancel-after'] !== undefined ? Number(asked['cancel-after']) : undefined;
      const outcome = await callTool(client, call, call.cancelAfter ?? fallback, timeout, McpError);
      seen.push({ round, ...outcome });
    }
  }
  return seen;
}

/** Hears notifications of every kind without taking them from the SDK's own handlers. */
function countNotifications(transport) {
  const counts = {};
  const deliver = transport.onmessage;
  transport.onmessage = (message, extra) => {
    if (message.method !== undefined && message.id === undefined) {
      counts[message.method] = (counts[message.method] ?? 0) + 1;
    }
    return deliver?.(message, extra);
  };
  return counts;
}

/** Notes when and how the server's process ends. The SDK keeps the process to itself. */
function watchExit(transport) {
  const child = transport._process;
  if (child === undefined) return Promise.resolve(null);
  return new Promise(resolve => {
    child.once('exit', (code, signal) => resolve({ at: performance.now(), code, signal }));
  });
}

async function connectTo(asked) {
  if (asked.url !== undefined) {
    const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js');
    return new StreamableHTTPClientTransport(new URL(asked.url), { requestInit: { headers: asked.header } });
  }
  const { StdioClientTransport } = await load('client/stdio.js');
  const [command, ...args] = asked.command;
  return new StdioClientTransport({ command, args, env: asked.env, cwd: asked.cwd, stderr: 'pipe' });
}

async function observe(asked) {
  const { Client } = await load('client/index.js');
  const { ElicitRequestSchema, McpError } = await load('types.js');
  const version = JSON.parse(readFileSync(path.join(sdk, 'package.json'), 'utf8')).version;
  const timeout = Number(asked.timeout) * 1000;
  const start = performance.now();
  const transport = await connectTo(asked);
  let protocol = null;
  const tellTransport = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = version => {
    protocol = version;
    tellTransport?.(version);
  };
  let stderr = '';
  transport.stderr?.on('data', chunk => {
    stderr = (stderr + chunk).slice(-STDERR_TAIL);
  });
  const client = new Client(
    { name: asked['client-name'], version: '1.0.0' },
    { capabilities: asked.elicit ? { elicitation: {} } : {} }
  );
  const elicitations = [];
  if (asked.elicit) {
    client.setRequestHandler(ElicitRequestSchema, request => {
      elicitations.push(request.params);
      return asked.elicit === 'accept'
        ? { action: 'accept', content: JSON.parse(asked['elicit-content']) }
        : { action: asked.elicit };
    });
  }
  await client.connect(transport, { timeout });
  const exited = watchExit(transport);
  const notifications = countNotifications(transport);
  const report = {
    sdk: { name: '@modelcontextprotocol/sdk (npm)', version },
    protocol,
    stateless: false,
    server: client.getServerVersion() ?? null,
    capabilities: client.getServerCapabilities() ?? {},
    instructions: client.getInstructions() ?? null,
    connectMs: since(start),
    tools: await listTools(client, asked.schemas, timeout)
  };
  report.calls = await runCalls(client, asked, timeout, McpError);
  const closing = performance.now();
  await transport.terminateSession?.();
  await client.close();
  const end = await Promise.race([exited, new Promise(resolve => setTimeout(resolve, 5_000, null).unref())]);
  report.exit = {
    ms: end && Math.round(Math.max(0, end.at - closing) * 1000) / 1000,
    code: end?.code ?? null,
    signal: end?.signal ?? null
  };
  return { ...report, stderr, notifications, elicitations };
}

const asked = readArguments();
const limit = new Promise((_, reject) =>
  setTimeout(() => reject(new Error(`no end within ${asked.limit} s`)), Number(asked.limit) * 1000).unref()
);
const report = await Promise.race([observe(asked), limit]).catch(error => ({
  failed: `${error?.name ?? 'Error'}: ${error?.message ?? error}`
}));
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(report.failed === undefined ? 0 : 1));
