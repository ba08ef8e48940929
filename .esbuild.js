// Builds dist/: joins each program of src/ with the packages that it uses, in a few files. A process loads them in half the
// time that many hundreds of modules take. The build can run while the service does: each file is replaced at once, and the
// programs after the chunks that they import.
import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { build } from 'esbuild'

const outdir = 'dist'

/** The oldest version of Node.js that runs the service. */
const oldestNode = JSON.parse(await readFile('package.json', 'utf8')).engines.node.replace('>=', '')

if (process.versions.node.localeCompare(oldestNode, 'en', { numeric: true }) < 0) {
  console.error(
    `users-api: needs Node.js ${oldestNode} or newer, and this is ${process.versions.node}: install a newer one`,
  )
  process.exit(1)
}

/** Files and folders that modules read beside themselves. All modules come into dist/, so these do, too. */
const assets = [
  'src/api/docs/page',
  'src/api/openapi/introduction.md',
  'src/supervisor/control-ports/status-page.html',
]

/** All entry points but that of `npm run dev`, which runs from source. */
const programs = (await readdir('src')).filter(name => name.endsWith('.ts') && name !== 'dev.ts')

/** Returns the licenses of packages, which their copies must contain. @param inputs the joined files */
async function licensesOf(inputs) {
  const folders = new Set(inputs.flatMap(path => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []))
  let text = ''
  for (const folder of [...folders].sort())
    for (const name of await readdir(folder))
      if (/^(licen[cs]e|notice)/i.test(name))
        text += `== ${folder}/${name}\n\n${await readFile(join(folder, name), 'utf8')}\n`
  return text
}

const { outputFiles, metafile } = await build({
  // The last one is loaded when it is needed, also by a supervisor that has started before this build.
  entryPoints: [...programs.map(name => `src/${name}`), 'src/supervisor/self-signed.ts'],
  entryNames: '[name]',
  outdir,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: `node${oldestNode}`,
  // The `main` of some packages is a UMD module, in which esbuild does not see the calls of `require`.
  mainFields: ['module', 'main'],
  // What packages that are CommonJS modules use.
  banner: {
    js: `import { createRequire as createRequireHere } from 'node:module'
const require = createRequireHere(import.meta.url)
const __dirname = import.meta.dirname`,
  },
  external: [
    'pm2',
    // Drivers of other databases, which Knex names and this service does not install.
    'better-sqlite3',
    'mariadb',
    'mysql',
    'oracledb',
    'pg',
    'sqlite3',
    'tedious',
  ],
  // Read by `node --enable-source-maps` and by debuggers.
  sourcemap: true,
  sourcesContent: false,
  metafile: true,
  write: false,
  logLevel: 'warning',
})

// Their names end in a hash of their contents.
const isChunk = ({ path }) => /-[A-Z0-9]{8}\.js/.test(path)
const licenses = {
  path: join(outdir, 'LICENSES.txt'),
  contents: await licensesOf(Object.keys(metafile.inputs)),
}
const files = [licenses, ...outputFiles.filter(isChunk), ...outputFiles.filter(file => !isChunk(file))]

await mkdir(outdir, { recursive: true })
for (const asset of assets) await cp(asset, join(outdir, basename(asset)), { recursive: true })
for (const { path, contents } of files) {
  await writeFile(`${path}.new`, contents)
  await rename(`${path}.new`, path)
}
const built = new Set([...files.map(({ path }) => path), ...assets].map(path => basename(path)))
for (const name of await readdir(outdir))
  if (!built.has(name)) await rm(join(outdir, name), { recursive: true })
