// The configuration of the compiled tests, which `npm test` and `npm run test:unit` run. `npx ava` runs the source with tsx.
export default {
  files: ['var/tests/test/**/*.test.js'],
  nodeArguments: ['--enable-source-maps'],
  timeout: '2m',
  workerThreads: false,
}
