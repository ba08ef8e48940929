// Reads the Markdown documents of the project: their sections, and the commands in them with the expected output.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../src/config/root.ts'

/** Folders that are not part of the project. */
const foreign = ['.git', 'node_modules', 'dist', 'var']

/** Returns the paths of all files of the project, relative to its folder. */
export function projectFiles(): string[] {
  return readdirSync(root, { withFileTypes: true })
    .filter(({ name }) => !foreign.includes(name))
    .flatMap(entry => {
      if (!entry.isDirectory()) return [entry.name]
      const files = readdirSync(join(root, entry.name), { recursive: true, encoding: 'utf8' })
      return files.map(file => join(entry.name, file)).filter(file => !/\b(?:node_modules|dist)\b/.test(file))
    })
}

export const readDocument = (path: string): string => readFileSync(join(root, path), 'utf8')

/** Returns a section of the second level, without its title. @throws Error if there is none with this title */
export function sectionOf(path: string, title: string): string {
  const section = readDocument(path)
    .split('\n## ')
    .find(text => text.startsWith(`${title}\n`))
  if (section === undefined) throw new Error(`${path} has no section ${title}`)
  return section.slice(title.length)
}

/** A block of shell commands, and the block right after it, which shows their output. */
export interface Step {
  readonly commands: string
  readonly output: string | undefined
}

export function stepsOf(text: string): Step[] {
  return [...text.matchAll(/^```sh\n(.*?)^```\n(?:\n?```(?:json|text)?\n(.*?)^```$)?/gms)].map(
    ([, commands = '', output]) => ({ commands, output }),
  )
}
