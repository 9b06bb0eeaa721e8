// The peer of `tapyr replay`: DuckDB reads the same journal, with its columns declared, and groups usage and the smallest
// remaining by hour and account. Prints one line of JSON.
//
//   npm ci && node duckdb.mjs /tmp/journal.jsonl [threads]
import { DuckDBInstance } from '@duckdb/node-api';
import { readFileSync, statSync } from 'node:fs';

const [file, threads = '2'] = process.argv.slice(2);
if (!file) {
  console.error('usage: node duckdb.mjs FILE [THREADS]');
  process.exit(2);
}

const columns = {
  id: 'VARCHAR', ts: 'TIMESTAMP', provider: 'VARCHAR', account: 'VARCHAR', target: 'VARCHAR', credential: 'VARCHAR', method: 'VARCHAR',
  endpoint: 'VARCHAR', vars: 'MAP(VARCHAR, VARCHAR)', job: 'VARCHAR', priority: 'VARCHAR', retry: 'BOOLEAN', auth: 'BOOLEAN',
  status: 'INTEGER', headers: 'MAP(VARCHAR, VARCHAR)', latencyMs: 'DOUBLE',
};
const declared = Object.entries(columns).map(([name, type]) => `${name}: '${type}'`).join(', ');
const query = `
  SELECT date_trunc('hour', ts) AS hour, account, count(*) AS used,
         min(CAST(headers['X-RateLimit-Remaining-day'] AS BIGINT)) AS remaining
  FROM read_json('${file.replaceAll("'", "''")}', format = 'newline_delimited', columns = {${declared}})
  GROUP BY hour, account ORDER BY hour, account`;

const instance = await DuckDBInstance.create(':memory:', { threads });
const connection = await instance.connect();
const begin = process.hrtime.bigint();
const before = process.cpuUsage();
const groups = (await connection.runAndReadAll(query)).getRows();
const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
const cpu = process.cpuUsage(before);
const rows = groups.reduce((sum, g) => sum + Number(g[2]), 0);
const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? 0) / 1024;
console.log(JSON.stringify({
  peer: 'duckdb', bytes: statSync(file).size, rows, groups: groups.length, seconds, cpuSeconds: (cpu.user + cpu.system) / 1e6, peakMiB: Math.round(peak),
}));
process.exit(0);
