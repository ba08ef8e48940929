// The configuration of the compiled tests, which `npm test` and `npm run test:unit` run. `npx ava` runs the source with tsx.
import { resolve } from 'node:path'

/** Parts of paths, in the order in which these files start: those that take longest come first, so that none is left to run alone. */
const parts = [
  '/operations/',
  '/api/changes.',
  '/api/security.',
  '/commands/',
  '/unit/listener/',
  '/cluster/',
  '/cache/',
  '/database/',
  '.property.',
  '/api/',
  '/unit/',
]
const rank = file => parts.findIndex(part => file.includes(part))

export default {
  files: ['var/tests/test/**/*.test.js'],
  sortTestFiles: (one, other) => rank(one) - rank(other) || (one < other ? -1 : 1),
  nodeArguments: ['--enable-source-maps'],
  // The settings of the project, without config/local.json of a developer: `npm run compile` copies them.
  environmentVariables: { NODE_CONFIG_DIR: resolve('var/tests/config') },
  // A test of many requests shows no progress, and on a busy machine some take a minute.
  timeout: '5m',
  workerThreads: false,
}
