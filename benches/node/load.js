'use strict';
// One run of a load on Node.js, for measure.js: node load.js LOAD BLOCKED WARMUP_MS TIME_MS. It prints one line of JSON.
//
// LOAD is `pbkdf2`, `zlib`, `read` or `mix`, in which a call is the three one after the other. IN_FLIGHT calls are under way at once; the
// callback of one that ended starts the next. BLOCKED is `none`, `lookups-N` or `opens-N`: N calls of dns.lookup() that get no answer, or
// of fs.open() on a pipe that nobody writes to, are under way all the time.
const crypto = require('crypto');
const dns = require('dns');
const fs = require('fs');
const os = require('os');
const path = require('path');
const zlib = require('zlib');
const { execFileSync } = require('child_process');

const IN_FLIGHT = { pbkdf2: 4, zlib: 4, read: 4, mix: 12 };
const PBKDF2_ROUNDS = 1000;
const TEXT = Buffer.from('The quick brown fox jumps over the lazy dog. '.repeat(400)).subarray(0, 16384);

const [load, blocked, warmupMs, timeMs] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'node-load-'));
const file = path.join(folder, 'file');
fs.writeFileSync(file, TEXT);

const calls = {
    pbkdf2: (done) => crypto.pbkdf2('secret', 'salt', PBKDF2_ROUNDS, 32, 'sha256', done),
    zlib: (done) => zlib.deflate(TEXT, done),
    read: (done) => fs.readFile(file, done),
    mix: (done) => calls.pbkdf2((error) => {
        if (error) return done(error);
        return calls.zlib((error) => error ? done(error) : calls.read(done));
    }),
};
const taken = [];
let measuring = false;

function again() {
    const begin = process.hrtime.bigint();
    calls[load]((error) => {
        if (error) throw error;
        if (measuring) taken.push(Number(process.hrtime.bigint() - begin) / 1000);
        again();
    });
}

/** Has so many calls under way that block their thread. */
function block(what) {
    const [kind, number] = what.split('-');
    const pipe = path.join(folder, 'pipe');
    if (kind === 'opens') execFileSync('mkfifo', [pipe]);
    const start = {
        none: () => {},
        opens: () => fs.open(pipe, 'r', () => { throw new Error('an open of the pipe has not blocked'); }),
        lookups: (at) => {
            const begin = Date.now();
            dns.lookup(`host-${at}.blocked.test`, () => {
                if (Date.now() - begin < 500) throw new Error('a look-up has not blocked');
                start.lookups(at);
            });
        },
    }[kind];
    for (let at = 0; at < Number(number ?? 0); at++) start(at);
}

const at = (sorted, share) => sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : null;

function report(before, threads) {
    const seconds = Number(process.hrtime.bigint() - before.at) / 1e9;
    const cpu = process.cpuUsage(before.cpu);
    const usage = process.resourceUsage();
    const sorted = taken.sort((a, b) => a - b);
    const result = { calls: sorted.length, seconds, p50_us: at(sorted, 0.5), p99_us: at(sorted, 0.99) };
    result.cpu_s = (cpu.user + cpu.system) / 1e6;
    result.switches = usage.voluntaryContextSwitches + usage.involuntaryContextSwitches - before.switches;
    result.threads = threads;
    result.memory_kb = usage.maxRSS;
    fs.writeSync(1, JSON.stringify(result) + '\n');
    fs.rmSync(folder, { recursive: true });
    // The blocked calls would hold an ordinary exit up.
    process.kill(process.pid, 'SIGKILL');
}

block(blocked);
// The blocked calls come first: those of the load find the threads taken.
setTimeout(() => {
    for (let number = 0; number < IN_FLIGHT[load]; number++) again();
    setTimeout(() => {
        const usage = process.resourceUsage();
        const switches = usage.voluntaryContextSwitches + usage.involuntaryContextSwitches;
        const before = { at: process.hrtime.bigint(), cpu: process.cpuUsage(), switches };
        let threads = 0;
        setInterval(() => { threads = Math.max(threads, fs.readdirSync('/proc/self/task').length); }, 100);
        measuring = true;
        setTimeout(() => report(before, threads), Number(timeMs));
    }, Number(warmupMs));
}, 50);
