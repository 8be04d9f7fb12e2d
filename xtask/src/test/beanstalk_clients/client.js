// Drives a server with jackd, as a program of its users would.

const assert = require("node:assert");
const Jackd = require("jackd");

async function main() {
  const [host, port] = process.argv[2].split(":");
  const client = new Jackd();
  await client.connect({ host, port: Number(port) });

  assert.equal(await client.use("pictures"), "pictures");
  assert.equal(await client.watch("pictures"), 2);
  assert.equal(await client.ignore("default"), 1);

  const first = await client.put({ file: "a.png" }, { priority: 2, ttr: 30 });
  const second = await client.put("b.png", { priority: 1 });
  const later = await client.put("c.png", { priority: 50, delay: 3600 });
  assert.equal((await client.peekReady()).payload.toString(), "b.png");
  assert.equal((await client.peekDelayed()).id, later);

  let job = await client.reserve();
  assert.deepEqual([job.id, job.payload.toString()], [second, "b.png"]);
  await client.touch(job.id);
  await client.bury(job.id, 7);
  assert.equal((await client.peekBuried()).id, second);
  assert.equal(await client.kick(5), 1);
  await client.kickJob(later);

  job = await client.reserveWithTimeout(0);
  assert.deepEqual(JSON.parse(job.payload), { file: "a.png" });
  await client.release(job.id, { priority: 3, delay: 0 });

  // Many commands at once: jackd sends them without waiting.
  const bodies = Array.from({ length: 500 }, (_, n) => `job ${n}`);
  const ids = await Promise.all(bodies.map((body) => client.put(body, { priority: 1000 })));
  assert.equal(new Set(ids).size, 500);

  const seen = [];
  for (let left = 503; left > 0; left -= 1) {
    job = await client.reserveWithTimeout(5);
    seen.push(job.id);
    await client.delete(job.id);
  }
  assert.equal(new Set(seen).size, 503);
  assert.ok([first, second, later, ...ids].every((id) => seen.includes(id)));
  await assert.rejects(client.reserveWithTimeout(0), /TIMED_OUT/);
  await assert.rejects(client.delete(first), /NOT_FOUND/);

  assert.match(await client.statsTube("pictures"), /total-jobs: 503/);
  assert.match(await client.stats(), /cmd-put: \d+/);
  assert.match(await client.listTubes(), /- pictures/);
  await client.quit();
  console.log("jackd: fine");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
