// Builds dist/: joins each program of src/ with the packages that it uses, in a few files. A process loads them in half the
// time that many hundreds of modules take.
import { cp, readdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { build } from 'esbuild'

const outdir = 'dist'

/** What modules read from their own folder: the build puts all of them into one. */
const assets = [
  'src/api/docs/page',
  'src/api/openapi/introduction.md',
  'src/supervisor/control/status-page.html',
]

const { metafile } = await build({
  entryPoints: ['src/*.ts'],
  outdir,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  // The `main` of some packages is a UMD module, in which esbuild does not see the calls of `require`.
  mainFields: ['module', 'main'],
  // Packages that are CommonJS modules call `require`.
  banner: {
    js: "import { createRequire as createRequireHere } from 'node:module'; const require = createRequireHere(import.meta.url)",
  },
  external: [
    'pm2',
    // Read as files.
    'swagger-ui-dist',
    // Drivers of other databases, which Knex names and this service does not install.
    'better-sqlite3',
    'mariadb',
    'mysql',
    'oracledb',
    'pg',
    'pg-query-stream',
    'sqlite3',
    'tedious',
  ],
  // Read by `node --enable-source-maps` and by debuggers.
  sourcemap: true,
  sourcesContent: false,
  metafile: true,
  logLevel: 'warning',
})
for (const asset of assets) await cp(asset, join(outdir, basename(asset)), { recursive: true })

const built = new Set([...Object.keys(metafile.outputs), ...assets].map(path => basename(path)))
for (const name of await readdir(outdir))
  if (!built.has(name)) await rm(join(outdir, name), { recursive: true })
