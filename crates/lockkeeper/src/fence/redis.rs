//! Fences on Redis and Valkey: a script that compares a token and writes in one step. Texts for any client; no driver.
//!
//! The greatest token of a lock is a text at one key, in a form that the order of texts sorts: Lua's numbers are exact
//! up to 2^53 only, and tokens are greater than that.
//!
//! A fence is as durable as its server: a failover, a restart without persistence, or an eviction that loses the
//! greatest token lets an overtaken holder pass once more, until the current one writes again. The key has no time to
//! live, so of the policies for a full memory only those named `allkeys-…` evict it; `noeviction` and `volatile-…` do
//! not. In a cluster both keys lie in one slot: [`token_key`] sees to that.

use crate::{Error, ErrorKind, FencingToken, Operation, QueueName, Result};

/// The number of digits of a grant, and of a turn behind the point.
const GRANT_DIGITS: usize = 19;
const TURN_DIGITS: usize = 10;

/// Sets a key unless the lock's token was overtaken.
///
/// `KEYS[1]` is the key of the greatest token ([`token_key`]), `KEYS[2]` that of the data; `ARGV[1]` the token
/// ([`token_text`]), `ARGV[2]` the data. It answers nil if they were written. Otherwise a greater token was seen: it
/// answers that one ([`parse_token`]), and nothing was written. What is no token is an error, and writes nothing.
pub const SET: &str = "\
local token = ARGV[1]
local function is_token(text)
  return #text == 30 and string.find(text, '^%d+%.%d+$') and string.sub(text, 20, 20) == '.'
    and string.sub(text, 1, 19) <= '9223372036854775807' and string.sub(text, 21) <= '4294967295'
end
if not is_token(token) then return redis.error_reply('ERR the fencing token is malformed') end
local greatest = redis.call('GET', KEYS[1])
if greatest and not is_token(greatest) then return redis.error_reply('ERR the key of the fence has no token') end
if greatest and token < greatest then return greatest end
redis.call('SET', KEYS[1], token)
redis.call('SET', KEYS[2], ARGV[2])
return false";

/// What a script of yours begins with: `overtaken(key, token)` returns nil and keeps the token, or returns the greater
/// one that was seen of the lock, and then the script must write nothing.
///
/// ```lua
/// -- CHECK stands here
/// local greatest = overtaken(KEYS[1], ARGV[1])
/// if greatest then return greatest end
/// redis.call('HINCRBY', KEYS[2], 'balance', ARGV[2])
/// return false
/// ```
pub const CHECK: &str = "\
local function overtaken(key, token)
  local function is_token(text)
    return #text == 30 and string.find(text, '^%d+%.%d+$') and string.sub(text, 20, 20) == '.'
      and string.sub(text, 1, 19) <= '9223372036854775807' and string.sub(text, 21) <= '4294967295'
  end
  if not is_token(token) then error('the fencing token is malformed') end
  local greatest = redis.call('GET', key)
  if greatest and not is_token(greatest) then error('the key of the fence has no token') end
  if greatest and token < greatest then return greatest end
  redis.call('SET', key, token)
  return nil
end
";

/// The key of the greatest token of a lock for data at this key, in the same slot of a cluster.
///
/// ```
/// use lockkeeper::fence::redis::token_key;
///
/// assert_eq!(token_key(&"nightly backup".parse()?, "report")?, "{report}:fence:nightly%20backup");
/// assert_eq!(token_key(&"a".parse()?, "{shop}:prices")?, "{shop}:prices:fence:a");
/// # Ok::<(), lockkeeper::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`], permanent: no other key is certain to lie in the slot of this one, which is empty, or
/// has a `}` and no tag.
pub fn token_key(name: &QueueName, data_key: &str) -> Result<String> {
    // Redis hashes what stands in the first braces, if that is something, else the whole key.
    let tag = data_key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let lock = name.encoded();
    if tag.is_some_and(|tag| !tag.is_empty()) {
        return Ok(format!("{data_key}:fence:{lock}"));
    }
    if data_key.is_empty() || data_key.contains('}') {
        let message = format!("no key lies beside `{data_key}` in a cluster; put a part of it in braces");
        return Err(Error::permanent(ErrorKind::InvalidConfig, Operation::Configure, message));
    }
    Ok(format!("{{{data_key}}}:fence:{lock}"))
}

/// The text of a token, as the scripts compare it: 19 digits of the grant, 10 of the turn.
pub fn token_text(token: FencingToken) -> String {
    format!("{:0GRANT_DIGITS$}.{:0TURN_DIGITS$}", token.as_u64(), token.turn())
}

/// Reads a token that a script has answered; `None` if it is none.
pub fn parse_token(text: &str) -> Option<FencingToken> {
    let (grant, turn) = text.split_once('.')?;
    let is_whole = |digits: &str, count| digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_whole(grant, GRANT_DIGITS) || !is_whole(turn, TURN_DIGITS) {
        return None;
    }
    FencingToken::new(grant.parse().ok()?, turn.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_tokens_stand_in_the_order_of_the_tokens_and_are_read_back() {
        let texts = ["1", "1.2", "2", "9", "10", "1784.2", "1784.10", "9007199254740993", "9223372036854775807"];
        let tokens = texts.map(|text| text.parse::<FencingToken>().unwrap());
        assert!(tokens.is_sorted());
        assert!(tokens.map(token_text).is_sorted());
        for token in tokens {
            assert_eq!(parse_token(&token_text(token)), Some(token));
        }
        for wrong in ["", "1784", "1784.2", "9999999999999999999.0000000000", "-000000000000000001.0000000000"] {
            assert_eq!(parse_token(wrong), None, "{wrong}");
        }
    }

    /// What Redis hashes of a key.
    fn hashed(key: &str) -> &str {
        match key.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
            Some((tag, _)) if !tag.is_empty() => tag,
            _ => key,
        }
    }

    #[test]
    fn the_key_of_a_fence_lies_in_the_slot_of_its_data_or_is_refused() {
        let name: QueueName = "x".parse().unwrap();
        for data in ["a", "{b}c", "a{b}c", "a{b", "{a}{b}", "{a", "a{{b}c"] {
            assert_eq!(hashed(&token_key(&name, data).unwrap()), hashed(data), "{data}");
        }
        for data in ["", "{}c", "d}", "{}{t}z", "}{"] {
            assert_eq!(token_key(&name, data).unwrap_err().kind(), ErrorKind::InvalidConfig, "{data}");
        }
    }
}
