// The peer of `tapyr validate`: ajv, with the same JSON Schemas and every keyword checked, over the same folder of YAML documents.
// All errors are listed, as tapyr does; the formats of tapyr's own units are checked by the patterns beside them.
//
//   npm ci && node ajv.mjs SCHEMAS DOCUMENTS
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { parseAllDocuments } from 'yaml';

const [schemas, folder] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node ajv.mjs SCHEMAS DOCUMENTS');
  process.exit(2);
}
const ajv = new Ajv2020({ allErrors: true, strict: false });
addFormats(ajv);
const validators = {};
for (const kind of ['Provider', 'Account', 'Job', 'Settings', 'SpendPolicy']) {
  validators[kind] = ajv.compile(JSON.parse(readFileSync(join(schemas, `${kind.toLowerCase()}.schema.json`), 'utf8')));
}
let documents = 0, errors = 0;
for (const file of readdirSync(folder).sort()) {
  for (const document of parseAllDocuments(readFileSync(join(folder, file), 'utf8'))) {
    const value = document.toJS();
    documents++;
    errors += document.errors.length;
    const validate = validators[value?.kind];
    if (!validate || !validate(value)) errors += validate ? validate.errors.length : 1;
  }
}
console.log(`${documents} documents: ${errors} errors`);
process.exit(errors ? 1 : 0);
