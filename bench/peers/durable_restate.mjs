#!/usr/bin/env node
// Measures durable steps of Restate: its server with a temporary data folder, and a service on its SDK for TypeScript.
//
//     source .tools/env && "$PENTAD_NODE24" bench/peers/durable_restate.mjs --steps 1000 --parallel 16 --json
//
// A step is `ctx.run` of a function that returns a number. The clock runs from the first invocation until the last result.

import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const INSTALLED = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../.tools/peers/npm");
const START_LIMIT = 60_000;
const RUN_LIMIT = 900_000;
const WARM_UP = 50;

/** Takes ports that nobody listens on. All are held until each is known, so that they differ. */
async function freePorts(count) {
  const held = [];
  for (let taken = 0; taken < count; taken++) {
    const probe = net.createServer();
    await new Promise((resolve, reject) => probe.once("error", reject).listen(0, "127.0.0.1", resolve));
    held.push(probe);
  }
  const ports = held.map((probe) => probe.address().port);
  await Promise.all(held.map((probe) => new Promise((resolve) => probe.close(resolve))));
  return ports;
}

/** Sends one request and returns the answer's JSON. `fetch` gives up after five minutes, so it is not used. */
function ask(port, method, target, body, limit = START_LIMIT) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", accept: "application/json" };
    const request = http.request({ host: "127.0.0.1", port, method, path: target, headers, agent: false }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part)).on("error", reject).on("end", () => {
        const text = Buffer.concat(parts).toString();
        if (answer.statusCode >= 300) return reject(new Error(`${method} ${target}: HTTP ${answer.statusCode}: ${text.slice(0, 300)}`));
        try {
          resolve(text === "" ? null : JSON.parse(text));
        } catch {
          reject(new Error(`${method} ${target}: no JSON in the answer: ${text.slice(0, 300)}`));
        }
      });
    });
    request.setTimeout(limit, () => request.destroy(new Error(`${method} ${target}: no answer within ${limit / 1000} s`)));
    request.on("error", reject).end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** The server with defaults throughout; only its places, and that it sends nothing home, are chosen. */
class Server {
  constructor(program, folder, [node, admin, ingress]) {
    this.admin = admin;
    this.ingress = ingress;
    this.log = path.join(folder, "server.log");
    const output = fs.openSync(this.log, "w");
    const environment = {
      PATH: process.env.PATH,
      HOME: folder,
      RESTATE_DISABLE_TELEMETRY: "true",
      RESTATE_ADMIN__BIND_PORT: String(admin),
      RESTATE_INGRESS__BIND_PORT: String(ingress),
    };
    const flags = ["--no-logo", "--listen-mode", "tcp", "--bind-ip", "127.0.0.1", "--bind-port", String(node)];
    const places = ["--node-name", "bench", "--base-dir", path.join(folder, "data")];
    this.process = spawn(program, [...flags, ...places], { cwd: folder, env: environment, stdio: ["ignore", output, output] });
    fs.closeSync(output);
    this.ended = new Promise((resolve) => {
      this.process.once("exit", resolve).once("error", resolve);
    });
    this.ended.then(() => (this.gone = true));
  }

  async ready() {
    const deadline = Date.now() + START_LIMIT;
    for (;;) {
      try {
        await ask(this.admin, "GET", "/health");
        await ask(this.ingress, "GET", "/restate/health");
        return;
      } catch (error) {
        if (this.gone || Date.now() > deadline) throw new Error(`the server did not start (${error.message}): ${this.lastWords()}`);
      }
      await pause(100);
    }
  }

  lastWords() {
    return fs.readFileSync(this.log, "utf8").slice(-600).replaceAll(/\s+/g, " ");
  }

  async close() {
    if (this.gone) return;
    this.process.kill("SIGTERM");
    const gone = await Promise.race([this.ended.then(() => true), pause(15_000, false, { ref: false })]);
    if (!gone) {
      this.process.kill("SIGKILL");
      await this.ended;
    }
  }
}

/** Passes on what went wrong; the SDK else logs the beginning and the end of each invocation. */
function onlyErrors({ level }, ...words) {
  if (level === "error") console.error("the service:", ...words);
}

/** The service whose steps are measured, and what it saw of them. */
function stepsService(restate) {
  const seen = { executed: 0, times: [] };
  const service = restate.service({
    name: "steps",
    handlers: {
      run: async (ctx, { steps }) => {
        let sum = 0;
        for (let number = 0; number < steps; number++) {
          const begun = performance.now();
          sum += await ctx.run("step", () => {
            seen.executed += 1;
            return number;
          });
          seen.times.push(performance.now() - begun);
        }
        return { sum };
      },
    },
  });
  return { service, seen };
}

/** Runs `parallel` invocations at once and returns how long all took together. */
async function measured(ingress, steps, parallel, limit = RUN_LIMIT) {
  const begun = performance.now();
  const results = await Promise.all(
    Array.from({ length: parallel }, () => ask(ingress, "POST", "/steps/run", { steps }, limit)),
  );
  const seconds = (performance.now() - begun) / 1000;
  const expected = (steps * (steps - 1)) / 2;
  const wrong = results.find(({ sum }) => sum !== expected);
  if (wrong) throw new Error(`an invocation returned ${wrong.sum} in place of ${expected}`);
  return seconds;
}

/** Returns how many steps the server has in its journals. */
async function recorded(admin) {
  const query = "SELECT COUNT(*) AS steps FROM sys_journal WHERE entry_type = 'Notification: Run'";
  const { rows } = await ask(admin, "POST", "/query", { query });
  return Number(rows[0].steps);
}

/** Returns the value at or below which this share of all values lies (nearest rank). */
function percentile(values, share) {
  const ordered = [...values].sort((left, right) => left - right);
  return ordered[Math.max(0, Math.min(ordered.length - 1, Math.round(share * ordered.length + 0.5) - 1))];
}

async function main() {
  const { values } = parseArgs({
    options: {
      steps: { type: "string", default: "1000" },
      parallel: { type: "string", default: "1" },
      json: { type: "boolean", default: false },
    },
  });
  const [steps, parallel] = [Number(values.steps), Number(values.parallel)];
  if (!(Number.isInteger(steps) && steps > 0 && Number.isInteger(parallel) && parallel > 0)) {
    throw new Error("--steps and --parallel take whole numbers above 0");
  }
  if (Number(process.versions.node.split(".")[0]) < 22) {
    throw new Error(`the SDK needs Node 22 or newer, this is ${process.versions.node}: use PENTAD_NODE24 of .tools/env`);
  }
  const require = createRequire(path.join(INSTALLED, "package.json"));
  const restate = require("@restatedev/restate-sdk");
  const program = require.resolve(`@restatedev/restate-server-${os.platform()}-${os.arch()}/bin/restate-server`);
  const version = require("@restatedev/restate-server/package.json").version;
  const sdk = require("@restatedev/restate-sdk/package.json").version;

  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "pentad-bench-restate-"));
    const { service, seen } = stepsService(restate);
  const server = new Server(program, folder, await freePorts(3));
  let end;
  const stopped = new Promise((_, reject) => (end = reject));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => end(new Error(`stopped by ${signal}`)));
  const work = async () => {
    const handler = restate.createEndpointHandler({ services: [service], logger: onlyErrors });
    const listening = http2.createServer(handler).listen(0, "127.0.0.1");
    await once(listening, "listening");
    await server.ready();
    await ask(server.admin, "POST", "/deployments", { uri: `http://127.0.0.1:${listening.address().port}` });
    await measured(server.ingress, WARM_UP, 1, START_LIMIT);
    seen.times.length = 0;
    const seconds = await measured(server.ingress, steps, parallel);
    const expected = WARM_UP + steps * parallel;
    const counts = { executed: seen.executed, recorded: await recorded(server.admin) };
    for (const [what, count] of Object.entries(counts)) {
      if (count !== expected) throw new Error(`${count} steps were ${what} in place of ${expected}`);
    }
    return seconds;
  };
  let seconds;
  try {
    seconds = await Promise.race([work(), stopped, server.ended.then(() => Promise.reject(new Error("the server ended")))]);
  } catch (error) {
    throw new Error(`${error.message}; its log ends: ${server.lastWords()}`);
  } finally {
    await server.close();
    fs.rmSync(folder, { recursive: true, force: true });
  }
  const result = {
    subject: `Restate ${version} (SDK for TypeScript ${sdk}, Node ${process.versions.node})`,
    steps,
    parallel,
    seconds,
    steps_per_second: (steps * parallel) / seconds,
    step_p50_ms: percentile(seen.times, 0.5),
    step_p99_ms: percentile(seen.times, 0.99),
  };
  const text = `${result.subject}: ${parallel} × ${steps} steps, ${result.steps_per_second.toFixed(0)} steps/s, ` +
    `a step ${result.step_p50_ms.toFixed(2)} ms p50, ${result.step_p99_ms.toFixed(2)} p99`;
  console.log(values.json ? JSON.stringify(result) : text);
}

main().then(
  () => process.exit(0), // the service would listen on
  (error) => {
    console.error(`durable_restate: ${error.message}`);
    process.exit(1);
  },
);
