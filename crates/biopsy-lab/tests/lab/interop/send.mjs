// Sends a sealed file by tus-js-client, which knows nothing of biopsy; a hook adds what each call of ours has.
import { generateKeyPairSync, sign } from 'node:crypto';
import { createReadStream, statSync } from 'node:fs';
import { createRequire } from 'node:module';

const [folder, lab, id, secret, file] = process.argv.slice(2);
const tus = createRequire(`${folder}/`)('tus-js-client');
const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const key = publicKey.export({ format: 'jwk' }).x;
const signed = ['upload-offset', 'upload-length', 'upload-checksum', 'upload-metadata'];

function prove(request) {
  const at = new URL(request.getURL());
  const text = [request.getMethod(), at.pathname + at.search, ...signed.map((name) => header(request, name) ?? '-')].join('\n');
  request.setHeader('authorization', `Bearer ${secret}`);
  request.setHeader('biopsy-key', key);
  request.setHeader('biopsy-proof', sign(null, Buffer.from(`biopsy call 1\n${text}`), privateKey).toString('base64url'));
}

const names = { 'upload-offset': 'Upload-Offset', 'upload-length': 'Upload-Length', 'upload-metadata': 'Upload-Metadata' };
function header(request, name) {
  const value = request.getHeader(names[name] ?? name);
  return value === undefined ? undefined : String(value);
}

const upload = new tus.Upload(createReadStream(file), {
  endpoint: `${lab}/api/uploads?request=${id}`,
  uploadSize: statSync(file).size,
  chunkSize: 256 * 1024,
  metadata: { consent: '["by tus-js-client"]' },
  retryDelays: [0, 100, 200],
  onBeforeRequest: prove,
  onError(error) {
    console.error(String(error));
    process.exit(1);
  },
  onSuccess() {
    console.log(upload.url);
  },
});
upload.start();
