// Bundles src/ into dist/report.{js,css} and send/ into dist/send.js, and notes the digest of all inputs and outputs beside them, so that a test
// without Node can tell whether dist/ is current.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

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

await build({ ...common, entryPoints: ['send/page.ts'], outfile: 'dist/send.js', format: 'esm', target: ['chrome110', 'firefox115', 'safari16.4'] });

/** Notes the digest of what an asset is made from, and of the asset. */
function note(folder, outputs, digest) {
  const hash = createHash('sha256');
  const inputs = readdirSync(folder).sort().map((name) => `${folder}/${name}`);
  for (const name of [...inputs, 'build.mjs', 'package.json', ...outputs]) {
    const content = readFileSync(name);
    hash.update(`${name} ${content.length}\n`);
    hash.update(content);
  }
  writeFileSync(digest, `${hash.digest('hex')}\n`);
}
note('src', ['dist/report.js', 'dist/report.css'], 'dist/digest');
note('send', ['dist/send.js'], 'dist/send.digest');

const size = ['dist/report.js', 'dist/report.css'].reduce((sum, name) => sum + readFileSync(name).length, 0);
console.log(`dist: ${size} bytes`);
if (size > LIMIT) throw new Error(`the built assets take ${size} bytes, the limit is ${LIMIT}`);
const sent = gzipSync(readFileSync('dist/send.js')).length;
console.log(`dist/send.js: ${sent} bytes, gzipped`);
if (sent > 60 * 1024) throw new Error(`the page that sends takes ${sent} bytes, gzipped; the limit is 60 KiB`);
