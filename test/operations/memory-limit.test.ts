// A worker that uses more memory than fleet.memoryBytes is replaced, and the log says so.
import test from 'ava'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

test('a worker whose memory exceeds the limit is replaced, and the log names it', async t => {
  const service = await startService({ config: { fleet: { memoryBytes: 1 } } })
  t.teardown(() => service.stop())
  const [grown = 0] = await service.workers()
  // A new worker is exempt for its first 30 s.
  const line = await service.logLine(/worker exceeds fleet\.memoryBytes/)
  t.like(JSON.parse(line), { level: 40, role: 'supervisor', worker: grown })
  t.regex(line, /"memoryBytes":\d{6,}/)
  await until(async () => !(await service.workers()).includes(grown))
  t.is(service.logLines(/worker exceeds/).length, 1)
})
