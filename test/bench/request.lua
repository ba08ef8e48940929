-- wrk script: sends one kind of request repeatedly and prints the result as one line of JSON.
-- Arguments: method, path, body, number of users, a number that is unique to the run, "close" or "keep-alive", and "keyed" for
-- requests with a new Idempotency-Key each.
-- In path and body, {id} is replaced by the id of a random user and {unique} by a text that was not sent before.

local method, path, body, users, run, keyed
local sent = 0

local replace = {
  id = function() return math.random(users) end,
  unique = function()
    sent = sent + 1
    return run .. '-' .. sent
  end,
}

local function fill(template)
  return (template:gsub('{(%a+)}', function(name) return replace[name] and replace[name]() end))
end

function init(args)
  method, path, body = args[1], args[2], args[3]
  users, run = tonumber(args[4]), args[5]
  math.randomseed(tonumber(run))
  wrk.headers['Connection'] = args[6]
  keyed = args[7] == 'keyed'
  if body ~= '' then wrk.headers['Content-Type'] = 'application/json' end
end

function request()
  if keyed then wrk.headers['Idempotency-Key'] = replace.unique() end
  return wrk.format(method, fill(path), nil, body ~= '' and fill(body) or nil)
end

function done(summary, latency)
  local errors = summary.errors
  print(string.format(
    '{"requests":%d,"durationUs":%d,"p50Us":%d,"p99Us":%d,"failed":{"status":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d}}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect, errors.read, errors.write, errors.timeout))
end
