// A client of penstock serve. For each file it puts the documents into a table, and follows a view until changes came.
// It stops following in between, and resumes after the last position: no change is lost, and none comes twice.
//
// It prints each change as a line of JSON, and after the changes of a step the position that they reach.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { parseArgs } = require("node:util");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const MOST_BYTES = 1 << 20; // documents of one request
const NEWLINE = 10;
const USAGE = `usage: node client.js [options] TABLE VIEW [FILE ...]   (files of JSON lines; without one, it only follows)
  --server ADDRESS    the gRPC address that penstock serve prints (127.0.0.1:7180)
  --token TOKEN       an access token with the role write (or in PENSTOCK_TOKEN)
  --ca FILE           use TLS, and trust the certificates in this file
  --since POSITION    follow after this position; without it, the rows of the view come first
  --changes N         stop following at the first position after so many changes (1)
  --timeout SECONDS   how long to wait for an answer, or for the changes (60)`;
const NEXT_STEPS = new Map([
  [
    grpc.status.UNAUTHENTICATED,
    "give --token one that penstock serve prints or `penstock serve token add NAME --role write` makes",
  ],
  [
    grpc.status.UNAVAILABLE,
    "start penstock serve, give --server its address, and --ca if it has TLS; then run this again",
  ],
  [grpc.status.DEADLINE_EXCEEDED, "wait longer with --timeout, or ask for fewer --changes"],
]);

function optionsOf(words) {
  const text = { type: "string" };
  const { values, positionals } = parseArgs({
    args: words,
    allowPositionals: true,
    options: { server: text, token: text, ca: text, since: text, changes: text, timeout: text },
  });
  const [table, view, ...files] = positionals;
  const { server = "127.0.0.1:7180", ca, since = "" } = values;
  const token = values.token || process.env.PENSTOCK_TOKEN || "";
  const changes = Number(values.changes ?? 1);
  const timeout = Number(values.timeout ?? 60);
  if (view === undefined || !(changes >= 1) || !(timeout > 0)) throw new Error("a table, a view, or a number is missing");
  return { table, view, files, server, token, ca, since, changes, timeout };
}

class Client {
  constructor(options) {
    this.options = options;
    const file = path.join(__dirname, "penstock.proto");
    const { penstock } = grpc.loadPackageDefinition(loader.loadSync(file, { longs: String, defaults: true }));
    const security = options.ca
      ? grpc.credentials.createSsl(fs.readFileSync(options.ca))
      : grpc.credentials.createInsecure();
    this.data = new penstock.v1.Data(options.server, security, { "grpc.max_receive_message_length": -1 });
    this.metadata = new grpc.Metadata();
    this.metadata.set("authorization", `Bearer ${options.token}`);
  }

  close() {
    this.data.close();
  }

  deadline() {
    return { deadline: Date.now() + this.options.timeout * 1000 };
  }

  // Send the documents of a file, in requests of at most 1 MiB.
  async put(table, name) {
    for (let rest = fs.readFileSync(name); rest.length > 0; ) {
      const lines = rest.subarray(0, firstRequest(rest));
      rest = rest.subarray(lines.length);
      if (lines.length > MOST_BYTES) {
        throw new Error(`${name} has a line of more than 1 MiB, the most of a request; take it out`);
      }
      const reply = await new Promise((resolve, reject) => {
        const answered = (error, found) => (error ? reject(error) : resolve(found));
        this.data.Upsert({ table, lines }, this.metadata, this.deadline(), answered);
      });
      const { applied, equal, late, rejected, rejections } = reply;
      console.error(`${table}: ${applied} applied, ${equal} equal, ${late} late, ${rejected} rejected`);
      for (const one of rejections) console.error(`${one.table}, ${one.place}: ${one.reason}`);
    }
  }

  // Print the changes after a position, or the rows first. Return the last position.
  //
  // A message without a token is part of a step. Its changes are kept until the position of the step comes: after a
  // break in the middle of a step, the whole step comes again.
  async follow(view, since) {
    const request = { views: [view], since, initial: since.length === 0 };
    const call = this.data.Watch(request, this.metadata, this.deadline());
    let position = since;
    let step = [];
    let shown = 0;
    try {
      for await (const message of call) {
        step.push(...message.changes);
        if (message.token.length === 0) continue;
        position = message.token;
        show(step, position);
        shown += step.length;
        step = [];
        if (shown >= this.options.changes) return position;
      }
    } finally {
      call.on("error", () => {}); // the end of the call is no failure
      call.cancel();
    }
    throw new Error("the server ended the stream; run again with --since and the last position that was printed");
  }
}

// Return the number of bytes of the first request: whole lines, at least one.
function firstRequest(lines) {
  if (lines.length <= MOST_BYTES) return lines.length;
  const end = lines.lastIndexOf(NEWLINE, MOST_BYTES - 1);
  return (end >= 0 ? end : lines.indexOf(NEWLINE)) + 1 || lines.length;
}

// Print the changes of a step and its position. Their JSON stays as it came, since numbers may have any size.
function show(step, position) {
  if (step.length === 0) return;
  const lines = step.map((one) => {
    const old = one.old.length > 0 ? `, "old": ${one.old}` : ""; // an absent result has no bytes
    const result = one.new.length > 0 ? `, "new": ${one.new}` : "";
    return `{"view": ${JSON.stringify(one.view)}, "group": ${one.group}${old}${result}}\n`;
  });
  process.stdout.write(`${lines.join("")}{"position": ${JSON.stringify(position.toString())}}\n`);
}

// Return the text of an error with the next step. Other refusals of the server name theirs.
function explained(error) {
  const text = (error.details ?? error.message).replace(/ Resolution note: $/, "");
  const next = error.syscall === "open" ? "give files that can be read" : NEXT_STEPS.get(error.code);
  return next ? `${text}; ${next}` : text;
}

async function run(options) {
  const client = new Client(options);
  let position = Buffer.from(options.since);
  try {
    if (options.files.length === 0) await client.follow(options.view, position);
    for (const name of options.files) {
      await client.put(options.table, name);
      position = await client.follow(options.view, position);
    }
  } finally {
    client.close();
  }
}

let options;
try {
  options = optionsOf(process.argv.slice(2));
} catch (error) {
  console.error(`client: ${error.message}\n${USAGE}`);
  process.exit(2);
}
process.stdout.on("error", (error) => {
  console.error(`client: ${error.message}; run again with --since and the last position that was printed`);
  process.exit(1);
});
run(options).catch((error) => {
  console.error(`client: ${explained(error)}`);
  process.exitCode = 1;
});
