// Ends the connection after a response that precedes the end of its request. The client may withhold the rest of a body. A proxy
// could then send another request on this connection, which would be taken for that rest.
import { setImmediate } from 'node:timers/promises'
import type { Middleware } from 'koa'

export const unfinishedRequest: Middleware = async (ctx, next) => {
  await next()
  // A short body that was received together with its headers is complete in the next turn of the event loop.
  if (!ctx.req.complete) await setImmediate()
  if (!ctx.req.complete) ctx.set('Connection', 'close')
}
