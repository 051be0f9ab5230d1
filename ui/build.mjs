// Bundles src/ into dist/report.{js,css}, and notes the digest of all inputs and outputs beside them, so that a test
// without Node can tell whether dist/ is current.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';

const LIMIT = 120 * 1024;

const common = { bundle: true, minify: true, charset: 'utf8', legalComments: 'none', logLevel: 'warning' };
await build({
  ...common,
  entryPoints: ['src/main.ts'],
  outfile: 'dist/report.js',
  format: 'iife',
  target: ['chrome100', 'firefox100', 'safari15'],
});
await build({ ...common, entryPoints: ['src/report.css'], outfile: 'dist/report.css' });

const hash = createHash('sha256');
const inputs = readdirSync('src').sort().map((name) => `src/${name}`);
for (const name of [...inputs, 'build.mjs', 'package.json', 'dist/report.js', 'dist/report.css']) {
  const content = readFileSync(name);
  hash.update(`${name} ${content.length}\n`);
  hash.update(content);
}
writeFileSync('dist/digest', `${hash.digest('hex')}\n`);

const size = ['dist/report.js', 'dist/report.css'].reduce((sum, name) => sum + readFileSync(name).length, 0);
console.log(`dist: ${size} bytes`);
if (size > LIMIT) throw new Error(`the built assets take ${size} bytes, the limit is ${LIMIT}`);
