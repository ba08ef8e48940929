// Parses bodies as JSON in UTF-8, long ones in turn.
import { setTimeout as delay } from 'node:timers/promises'
import type { Context } from 'koa'
import { ApiError } from '../../core/api-error.ts'
import { isGone } from '../../listener/peer.ts'
import { notJson } from '../errors.ts'

/** More than one record needs. A longer body waits for its turn to be parsed. */
const MAX_SHORT_BYTES = 4096
/** A suspension of the process can fall into the parsing of a body, and counts as a part of it. */
const MAX_PAUSE_MS = 1000

const utf8 = new TextDecoder('utf-8', { fatal: true })

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(utf8.decode(bytes))
  } catch (error) {
    const reason =
      bytes.length === 0 ? 'it is empty' : error instanceof SyntaxError ? error.message : 'it is not UTF-8'
    throw notJson(reason)
  }
}

/** Nothing of it reaches the client, whose connection has ended. */
export const endedEarly = () => new ApiError('malformed_request', 'the body ended early')

/**
 * Returns a function that parses long bodies one after another, and leaves as much time for everything else. A megabyte of
 * brackets takes hundreds of milliseconds. When many such bodies arrived together, the worker would send no heartbeat for so
 * long that it would be killed.
 */
export function createBodyParser() {
  /** Resolves when the next long body can be parsed. */
  let turn = Promise.resolve()

  return async ({ req, res }: Context, body: Buffer): Promise<unknown> => {
    if (body.length <= MAX_SHORT_BYTES) return parseJson(body)
    // The functions below refer to the body only by this variable: that of a client that has gone leaves the memory before its turn.
    let bytes: Buffer | undefined = body
    return new Promise((resolve, reject) => {
      const drop = () => {
        bytes = undefined
        reject(endedEarly())
      }
      req.once('aborted', drop)
      // For a request that is complete, Node.js does not emit 'aborted' when the connection ends.
      res.once('close', drop)
      turn = turn.then(async () => {
        if (bytes === undefined) return
        const startMs = performance.now()
        try {
          // A client that has only ended its side still gets its response.
          if (isGone(req.socket)) throw endedEarly()
          resolve(parseJson(bytes))
        } catch (error) {
          reject(error)
        } finally {
          // They would keep the parsed body in memory as long as the request, which can wait in the lane.
          req.off('aborted', drop)
          res.off('close', drop)
        }
        await delay(Math.min(MAX_PAUSE_MS, performance.now() - startMs))
      })
    })
  }
}
