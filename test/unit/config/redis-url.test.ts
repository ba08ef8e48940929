// The URLs of Redis: what is accepted, and the messages for the rest.
import test from 'ava'
import { redisUrl } from '../../../src/config/redis-url.ts'

const secret = 'p%40ss,word'
const faultOf = (value: unknown) => redisUrl.safeParse(value).error?.issues[0]?.message

test('Redis URL: one URL for each host, each with the user, the password and the path', t => {
  const accepted: [string, string[]][] = [
    ['redis://a', ['redis://a']],
    [`rediss://user:${secret}@a:1/2`, [`rediss://user:${secret}@a:1/2`]],
    ['redis+unix:///tmp/a,b.sock', ['redis+unix:///tmp/a,b.sock']],
    [`redis://:${secret}@a:1,[::1]:2`, [`redis://:${secret}@a:1`, `redis://:${secret}@[::1]:2`]],
    ['redis://u:p@a:1,redis://b:2', ['redis://u:p@a:1', 'redis://b:2']],
    ['redis+sentinel://a/main', ['redis+sentinel://a/main']],
    [
      `rediss+sentinel://user:${secret}@a:1,b/main?sentinel_username=u&sentinel_password=p`,
      ['a:1', 'b'].map(
        host => `rediss+sentinel://user:${secret}@${host}/main?sentinel_username=u&sentinel_password=p`,
      ),
    ],
  ]
  for (const [value, urls] of accepted) {
    t.deepEqual(redisUrl.parse(value), urls, value)
    t.deepEqual(redisUrl.parse(urls), urls, value)
  }
})

test('Redis URL: the message names what is allowed and never contains the password', t => {
  const masterName = (scheme: string) =>
    `must end with the name of the master: ${scheme}://user:password@host:port,host:port/master-name`
  const url =
    'must be a URL that starts with redis:// or rediss:// or redis+sentinel:// or rediss+sentinel:// or redis+unix://; several hosts are separated by commas: redis://user:password@host:port,host:port'
  const socket = 'must have the absolute path of one Unix socket, percent-encoded: redis+unix:///path'
  const rejected: [string, string][] = [
    ['', url],
    ['secret', url],
    ['redis:secret', url],
    ['http://:secret@a', url],
    ['sentinel://:secret@a/main', url],
    ['redis://:secret@a:99999', url],
    ['redis://:secret@a:1,redis+sentinel://b/main', 'must have the same scheme for all hosts'],
    ['redis://:secret%@a', 'must have a percent-encoded user and password; write a % as %25'],
    ['redis://user:#secret@a', 'must not contain a #; write it as %23'],
    ['redis://user:sec#ret@a', 'must not contain a #; write it as %23'],
    ['redis+unix:///a#secret', 'must not contain a #; write it as %23'],
    ['redis+unix://secret', socket],
    ['redis+unix:///a,redis+unix:///b', socket],
    ['redis+unix:///secret%', socket],
    ...['redis://:secret@a?db=1', 'rediss://:secret@a,b?tls=true', 'redis+unix:///a?db=1'].map(
      (value): [string, string] => [
        value,
        'must not have parameters; for TLS: rediss://user:password@host:port/0',
      ],
    ),
    ['redis://:secret@a,', url],
    ['redis+sentinel://:secret@a,,b/main', url],
    ['redis+sentinel:///main', url],
    ['redis://a,', url],
    ['redis+sentinel://:secret@a,b', masterName('redis+sentinel')],
    ['rediss+sentinel://:secret@a,b/', masterName('rediss+sentinel')],
    ['redis+sentinel://:secret@a/main/0', masterName('redis+sentinel')],
    [
      'redis+sentinel://:secret@a/main?db=1',
      'can have only the parameters sentinel_username and sentinel_password',
    ],
    [
      'redis://:secret@a,b/1',
      'must not have a database number, because a Redis Cluster has only one database',
    ],
    [
      'rediss://:secret@a/main',
      'can have only the number of a database as its path: rediss://user:password@host:port/0',
    ],
  ]
  for (const [value, message] of rejected) {
    t.is(faultOf(value), message, value)
    t.notRegex(message, /secret/)
  }
  t.truthy(faultOf([]))
  t.is(faultOf(6379), url)
})
