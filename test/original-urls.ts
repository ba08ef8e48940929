// Completes `npm run compile`: each compiled file gets the URL of its source as `import.meta.url`, so that it finds the files of
// the project that it names relative to itself.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const compiled = fileURLToPath(new URL('../var/tests/', import.meta.url))

for (const file of readdirSync(compiled, { recursive: true, encoding: 'utf8' }).filter(name =>
  name.endsWith('.js'),
)) {
  const source = new URL(`../${file.replace(/js$/, 'ts')}`, import.meta.url)
  const text = readFileSync(join(compiled, file), 'utf8')
  writeFileSync(join(compiled, file), text.replaceAll('import.meta.url', JSON.stringify(source.href)))
}
