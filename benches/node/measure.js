'use strict';
// Measures Node.js with libuv's own threads and with cmwq, in turns; scripts/node bench runs it. It appends to a CSV file and prints the
// table of medians of all that is in it: measure.js --csv FILE [--svg FILE] [--rounds N] [--time-ms N] NODE CMWQ_LIBRARIES STOCK_LIBRARIES
// (the last two: values of LD_LIBRARY_PATH).
const dgram = require('dgram');
const fs = require('fs');
const path = require('path');
const { spawnSync } = require('child_process');

const LOADS = ['pbkdf2', 'zlib', 'read', 'mix'].map((load) => [load, 'none'])
    .concat(['lookups-4', 'lookups-16', 'opens-4', 'opens-16'].map((blocked) => ['pbkdf2', blocked]))
    .concat(['lookups-4', 'opens-4'].map((blocked) => ['mix', blocked]));
const SIZES = ['2', '4', '8', '32'];
const COLUMNS = ['round', 'threads', 'load', 'blocked', 'calls', 'seconds', 'p50_us', 'p99_us', 'cpu_s', 'switches', 'peak_threads', 'memory_kb'];

function options(args) {
    const found = { rounds: '1', 'time-ms': '1000', names: [] };
    while (args.length) {
        const word = args.shift();
        if (word.startsWith('--')) found[word.slice(2)] = args.shift();
        else found.names.push(word);
    }
    return found;
}

/** One run in a process of its own. `threads`: `cmwq`, or a UV_THREADPOOL_SIZE of the stock library. */
function run(threads, load, blocked, { names: [node, cmwq, stock], 'time-ms': timeMs }) {
    const env = { ...process.env, LD_LIBRARY_PATH: threads === 'cmwq' ? cmwq : stock };
    if (threads !== 'cmwq') env.UV_THREADPOOL_SIZE = threads;
    const command = [path.join(__dirname, 'load.js'), load, blocked, '200', timeMs];
    const { stdout, stderr } = spawnSync(node, command, { env, encoding: 'utf8', timeout: 60000 });
    try {
        return JSON.parse(stdout);
    } catch {
        throw new Error(`${threads} ${load} ${blocked} failed: ${stdout}${stderr}`);
    }
}

function measure(options) {
    if (!fs.existsSync(options.csv)) fs.writeFileSync(options.csv, COLUMNS.join(',') + '\n');
    for (let round = 0; round < Number(options.rounds); round++) {
        for (const [load, blocked] of LOADS) {
            // Each begins as often as another.
            const all = ['cmwq', ...SIZES];
            const turn = [...all.slice(round % all.length), ...all.slice(0, round % all.length)];
            for (const threads of turn) {
                const r = run(threads, load, blocked, options);
                const figures = [r.calls, r.seconds, r.p50_us, r.p99_us, r.cpu_s, r.switches, r.threads, r.memory_kb];
                fs.appendFileSync(options.csv, [Date.now(), threads, load, blocked, ...figures.map((f) => f ?? '')].join(',') + '\n');
            }
        }
    }
}

/** The middle one, and the least and the greatest; nothing if some runs have no figure. */
function median(values) {
    if (!values.length || values.some((value) => Number.isNaN(value))) return null;
    const sorted = [...values].sort((a, b) => a - b);
    return { middle: sorted[sorted.length >> 1], least: sorted[0], most: sorted[sorted.length - 1] };
}

function rows(csv) {
    const [, ...lines] = fs.readFileSync(csv, 'utf8').trim().split('\n').map((line) => line.split(','));
    const read = (text) => text === '' ? NaN : Number(text);
    const of = (threads, load, blocked) => {
        const runs = lines.filter((line) => line[1] === threads && line[2] === load && line[3] === blocked);
        const figures = runs.map((line) => Object.fromEntries(COLUMNS.map((name, at) => [name, read(line[at])])));
        const each = (of) => median(figures.map(of));
        return {
            threads, load, blocked, runs: runs.length,
            rate: each((f) => f.calls / f.seconds),
            p50: each((f) => f.p50_us),
            p99: each((f) => f.p99_us),
            cpu: each((f) => f.calls ? f.cpu_s * 1e6 / f.calls : NaN),
            switches: each((f) => f.calls ? f.switches / f.calls : NaN),
            peak: each((f) => f.peak_threads),
            memory: each((f) => f.memory_kb / 1024),
        };
    };
    return LOADS.map(([load, blocked]) => ({ load, blocked, all: ['cmwq', ...SIZES].map((threads) => of(threads, load, blocked)) }));
}

const shown = (figure, digits = 0) => figure ? figure.middle.toFixed(digits) : '-';
const span = (figure) => figure ? `${shown(figure)} (${figure.least.toFixed(0)} to ${figure.most.toFixed(0)})` : '-';

function report(csv) {
    const out = [];
    const table = (head, lines) => out.push(`| ${head.join(' | ')} |`, `|${head.map(() => '---').join('|')}|`, ...lines.map((line) => `| ${line.join(' | ')} |`), '');
    const all = rows(csv);
    const lines = all.flatMap(({ load, blocked, all }) => all.map((r) => [
        load, blocked, r.threads === 'cmwq' ? 'cmwq' : `libuv, ${r.threads}`, span(r.rate), shown(r.p50), shown(r.p99), shown(r.cpu, 1),
        shown(r.switches, 1), shown(r.peak), shown(r.memory),
    ]));
    const unit = ['load', 'blocked', 'threads', 'calls/s (range)', 'p50 µs', 'p99 µs', 'CPU µs/call', 'switches/call', 'peak threads', 'MiB'];
    table(unit, lines);
    const compared = all.map(({ load, blocked, all: [cmwq, ...stock] }) => {
        const best = stock.reduce((a, b) => b.rate.middle > a.rate.middle ? b : a);
        const four = stock.find((r) => r.threads === '4');
        const ratio = (a, b) => b.rate.middle > 0 ? (a.rate.middle / b.rate.middle).toFixed(2) : 'stock: none in the run';
        return [load, blocked, ratio(cmwq, four), ratio(cmwq, best), best.threads];
    });
    table(['load', 'blocked', 'cmwq / libuv, 4', 'cmwq / best libuv', 'best UV_THREADPOOL_SIZE'], compared);
    const p99 = (at, load, blocked) => all.find((r) => r.load === load && r.blocked === blocked).all[at].p99;
    const beside = ['lookups-4', 'lookups-16', 'opens-4', 'opens-16'].map((blocked) => [blocked, ...['cmwq', ...SIZES].map((_, at) => {
        const [with_, without] = [p99(at, 'pbkdf2', blocked), p99(at, 'pbkdf2', 'none')];
        return with_ && without ? (with_.middle / without.middle).toFixed(2) : 'none ended';
    })]);
    table(['p99 of pbkdf2 / its p99 with nothing blocked', 'cmwq', ...SIZES.map((size) => `libuv, ${size}`)], beside);
    out.push(`Medians of ${all[0].all[0].runs} runs.`);
    return out.join('\n');
}

/** Bars: pbkdf2's rate by what is blocked. */
function picture(csv) {
    const shownRows = rows(csv).filter(({ load }) => load === 'pbkdf2' || load === 'mix');
    const colours = { cmwq: '#2a78d6', 2: '#c9c7c1', 4: '#8b8983', 8: '#6a6862', 32: '#45433f' };
    const [left, bar, wide] = [150, 12, 420];
    const out = [];
    let y = 40;
    for (const { load, blocked, all } of shownRows) {
        const most = Math.max(...all.map((r) => r.rate.middle), 1);
        out.push(`<text x="8" y="${y + 2.5 * bar + 4}">${load}, ${blocked === 'none' ? 'nothing blocked' : blocked.replace('-', ' × ')}</text>`);
        for (const r of all) {
            const width = Math.round(r.rate.middle / most * wide);
            const label = `${Math.round(r.rate.middle)}/s`;
            out.push(`<rect x="${left}" y="${y}" width="${Math.max(width, 1)}" height="${bar - 2}" fill="${colours[r.threads]}"/>`);
            out.push(`<text x="${left + width + 4}" y="${y + bar - 3}" font-size="9">${label}</text>`);
            y += bar;
        }
        y += 10;
    }
    const legend = ['cmwq', ...SIZES].map((threads, at) => {
        const x = left + at * 85;
        const name = threads === 'cmwq' ? 'cmwq' : `libuv, ${threads}`;
        return `<rect x="${x}" y="12" width="10" height="10" fill="${colours[threads]}"/><text x="${x + 14}" y="21">${name}</text>`;
    });
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 ${y + 8}" font-family="sans-serif" font-size="11" fill="#222">\n` +
        `<rect width="660" height="${y + 8}" fill="#fff"/>\n${legend.concat(out).join('\n')}\n</svg>\n`;
}

const chosen = options(process.argv.slice(2));
// The name server of resolv.conf here: it takes every question and answers none.
const silent = dgram.createSocket('udp4');
silent.on('error', (error) => { throw error; });
silent.bind(53, '127.0.0.1', () => {
    if (Number(chosen.rounds)) measure(chosen);
    console.log(report(chosen.csv));
    if (chosen.svg) fs.writeFileSync(chosen.svg, picture(chosen.csv));
    silent.close();
});
