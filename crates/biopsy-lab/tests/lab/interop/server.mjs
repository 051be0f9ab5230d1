// A server of tus by its authors, that knows nothing of biopsy: `node server.mjs FOLDER PORT UPLOADS`.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, port, uploads] = process.argv.slice(2);
async function load(name) {
  const at = join(folder, 'node_modules', name);
  const { exports: ways, main } = JSON.parse(readFileSync(join(at, 'package.json'), 'utf8'));
  const way = typeof ways === 'string' ? ways : ways?.['.']?.import?.default ?? ways?.['.']?.import ?? ways?.['.']?.default ?? main;
  return import(pathToFileURL(join(at, typeof way === 'string' ? way : main)).href).catch(() => createRequire(`${folder}/`)(name));
}
const { Server } = await load('@tus/server');
const { FileStore } = await load('@tus/file-store');
const server = new Server({ path: '/api/uploads', relativeLocation: true, datastore: new FileStore({ directory: uploads }) });
server.listen({ host: '127.0.0.1', port: Number(port) });
