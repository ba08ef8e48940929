// Limits how much memory the bodies take that a worker is receiving.
import type { IncomingMessage } from 'node:http'
import { ApiError } from '../../core/api-error.ts'

/**
 * Limits the total size of all bodies that this worker is receiving: beyond it, the largest ones are refused. Only received
 * bytes count. Clients that announce large bodies and send nothing, or send all but their last bytes, do not block all others.
 */
export function createBodyBudget(maxBytes: number) {
  const receiving = new Set<{ bytes: number; readonly refuse: () => void }>()
  let totalBytes = 0

  // The connection closes, because the rest of the body may still arrive.
  const overBudget = () =>
    new ApiError('unavailable', 'the service is receiving too many request bodies, please try again', {
      headers: { 'Retry-After': '1', Connection: 'close' },
    })

  function refuseLargest(): void {
    const [first, ...others] = receiving
    if (first === undefined) return
    const largest = others.reduce((most, body) => (body.bytes > most.bytes ? body : most), first)
    receiving.delete(largest)
    totalBytes -= largest.bytes
    largest.refuse()
  }

  /** @throws ApiError `unavailable` during `read`, or the error of `read` */
  return async <T>(request: IncomingMessage, read: () => Promise<T>): Promise<T> => {
    let refuse = (): void => {}
    const refused = new Promise<never>((_, reject) => {
      refuse = () => {
        reject(overBudget())
        // raw-body, or the parser, drops what was read. The connection may stay open for some seconds.
        request.emit('aborted')
      }
    })
    const body = { bytes: 0, refuse }
    const count = ({ length }: Buffer): void => {
      if (!receiving.has(body)) return
      body.bytes += length
      totalBytes += length
      if (totalBytes > maxBytes) refuseLargest()
    }
    receiving.add(body)
    request.on('data', count)
    try {
      return await Promise.race([refused, read()])
    } finally {
      request.off('data', count)
      if (receiving.delete(body)) totalBytes -= body.bytes
    }
  }
}
