// Code that a test runs in a process of its own. It imports the modules of src/ as the test does: compiled, or the source with
// tsx, which a process loads in a third of a second of processor time.
import { extname, join } from 'node:path'
import { pathToFileURL } from 'node:url'

const extension = extname(import.meta.filename)

/** The arguments of Node.js that precede the code. */
export const evalArgs: readonly string[] = [
  ...(extension === '.ts' ? ['--import=tsx'] : []),
  '--input-type=module',
  '--eval',
]

/** Returns the URL of a module, which code can have in quotes. @param name its path in src/ without the extension */
export const moduleOf = (name: string): string =>
  pathToFileURL(join(import.meta.dirname, '../../src', name + extension)).href.replaceAll("'", '%27')
