// Drives BullMQ: `node bullmq.js PORT WHAT JOBS SIZE CONCURRENCY BODY`; prints one JSON object.
const { Queue, Worker } = require('bullmq');
const [port, what, ...numbers] = process.argv.slice(2);
const [jobs, size, concurrency, body] = numbers.map(Number);
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue('orders', { connection, defaultJobOptions: { removeOnComplete: true, removeOnFail: true } });
const data = { body: 'x'.repeat(body) };
const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

// Adds all jobs, so many at a time, by so many callers.
async function add(delay) {
  let next = 0;
  const caller = async () => {
    while (next < jobs) {
      const first = next;
      next += size;
      if (size === 1) {
        await queue.add('order', data, { jobId: `order-${first}`, delay });
      } else {
        const many = Array.from({ length: Math.min(size, jobs - first) }, (_, k) => (
          { name: 'order', data, opts: { jobId: `order-${first + k}`, delay } }));
        await queue.addBulk(many);
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, caller));
}

function work(done, handle) {
  return new Promise((resolve) => {
    const worker = new Worker('orders', async (job) => handle(job), { connection, concurrency: done.concurrency });
    worker.on('completed', () => { if ((done.left -= 1) === 0) worker.close().then(resolve); });
  });
}

const parts = {
  async put() { await add(3_600_000); },
  async cycle() {
    const worked = work({ left: jobs, concurrency: 64 }, () => {});
    await add(1);
    await worked;
  },
  // SIZE is how many fall due a second.
  async lateness() {
    const begin = Date.now() + 2_000;
    const late = [];
    const worked = work({ left: jobs, concurrency: 64 }, (job) => { late.push(Date.now() - job.data.due); });
    const many = Array.from({ length: jobs }, (_, k) => {
      const due = begin + Math.floor((k * 1_000) / size);
      return { name: 'order', data: { due }, opts: { delay: due - Date.now() } };
    });
    await queue.addBulk(many);
    await worked;
    late.sort((one, other) => one - other);
    const share = (part) => late[Math.max(0, Math.ceil(late.length * part) - 1)];
    return { p50: share(0.5), p99: share(0.99) };
  },
};

(async () => {
  await queue.waitUntilReady();
  await sleep(200);
  const [cpu, start] = [process.cpuUsage(), process.hrtime.bigint()];
  const found = (await parts[what]()) ?? {};
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  const used = process.cpuUsage(cpu);
  console.log(JSON.stringify({ seconds, cpu: (used.user + used.system) / 1e6, ...found }));
  process.exit(0);
})();
