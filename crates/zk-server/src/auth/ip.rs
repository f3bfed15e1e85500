//! Addresses with an optional number of leading bits; version 4 only, as in Apache.

use std::net::Ipv4Addr;

/// Whether an access list may name this.
pub(super) fn is_valid(expression: &str) -> bool {
    parse(expression).is_some()
}

/// Whether an address is covered by an entry of an access list.
pub(super) fn matches(address: &str, expression: &str) -> bool {
    let (Some((network, bits)), Some(address)) = (parse(expression), parse_address(address)) else {
        return false;
    };
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or_default();
    address & mask == network & mask
}

/// The network and how many of its bits count.
fn parse(expression: &str) -> Option<(u32, u32)> {
    let (address, bits) = match expression.split_once('/') {
        Some((address, bits)) => (address, bits.parse().ok().filter(|bits| *bits <= 32)?),
        None => (expression, 32),
    };
    Some((parse_address(address)?, bits))
}

/// Four decimal numbers; leading zeros are admitted.
fn parse_address(text: &str) -> Option<u32> {
    let mut parts = text.split('.');
    let mut octets = [0; 4];
    for octet in &mut octets {
        *octet = parts.next()?.parse::<u8>().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets).to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_its_leading_bits() {
        assert!(matches("127.0.0.1", "127.0.0.1"));
        assert!(matches("10.1.2.3", "10.1.0.0/16"));
        assert!(matches("10.1.2.3", "0.0.0.0/0"));
        assert!(!matches("10.2.2.3", "10.1.0.0/16"));
        assert!(!matches("127.0.0.1", "127.0.0.2"));
        assert!(!matches("::1", "127.0.0.1"));
    }

    #[test]
    fn an_invalid_address_is_refused() {
        for expression in ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.4/33", "1.2.3.4/", "a", "1.2.3.-1"] {
            assert!(!is_valid(expression), "{expression:?}");
        }
        assert!(is_valid("1.2.3.4/32"));
        assert!(is_valid("1.2.3.4/0"));
    }
}
