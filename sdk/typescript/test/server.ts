/** A real server for a test: the binary that DWELL_BIN names. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { Client } from "../src/index.js";

export class Server {
  #child!: ChildProcess;
  #flags: string[];
  address = "";

  private constructor(flags: string[]) {
    this.#flags = flags;
  }

  /** One in memory whose clock can be moved, unless flags say otherwise. */
  static async start(...flags: string[]): Promise<Server> {
    const server = new Server(flags.length > 0 ? flags : ["--store", "memory:", "--dev-clock"]);
    await server.#start("127.0.0.1:0");
    return server;
  }

  async #start(listen: string): Promise<void> {
    const program = process.env["DWELL_BIN"];
    if (program === undefined) throw new Error("DWELL_BIN must name the dwell program");
    this.#child = spawn(program, ["serve", "--listen", listen, "--log", "error", ...this.#flags], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    if (this.#child.stdout === null) throw new Error("no output");
    for await (const line of createInterface(this.#child.stdout)) {
      const [word, url] = line.trim().split(/\s+/);
      if (word === "address" && url !== undefined) {
        this.address = url.replace("http://", "");
        this.#child.stdout.resume();
        return;
      }
    }
    throw new Error("the server did not say where it listens");
  }

  get client(): Client {
    return new Client(`http://${this.address}`);
  }

  async kill(): Promise<void> {
    const gone = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await gone;
  }

  startAgain(): Promise<void> {
    return this.#start(this.address);
  }
}
