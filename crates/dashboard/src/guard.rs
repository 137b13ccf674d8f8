//! Who may ask: names of the server, and pages that ask by themselves.
//!
//! A page of another site cannot read the answers of another server, unless the name of its own
//! site leads there (DNS rebinding). The browser says by which name it asks, so names that could
//! lead anywhere are refused. Browsers also say that a page of another site asks (Fetch Metadata
//! Request Headers, W3C, 2.3); programs such as `curl` say nothing.

use std::net::{IpAddr, Ipv6Addr};

use thalweg_http::header::HOST;
use thalweg_http::{HttpAnswer, HttpRequest, StatusCode, plain_answer};

/// What a browser says of the page that asks.
const SITE: &str = "sec-fetch-site";

/// Whether the request names this server by an address or as `localhost`.
///
/// # Errors
/// The refusal, if it does not.
pub(crate) fn check_name(request: &HttpRequest) -> Result<(), Box<HttpAnswer>> {
    let mut names = request.headers.get_all(HOST).iter();
    let name = match (names.next(), names.next()) {
        (Some(name), None) => name.to_str().unwrap_or_default(),
        _ => {
            let text = "a request names its host once\n";
            return Err(Box::new(plain_answer(StatusCode::BAD_REQUEST, text)));
        }
    };
    let of_target = request.uri.authority().map(|authority| authority.as_str());
    match of_target.into_iter().chain([name]).all(is_own) {
        true => Ok(()),
        false => {
            let text = "the dashboard is asked by an address or as localhost, and by no other \
                        name: a page of another site could have it\n";
            Err(Box::new(plain_answer(
                StatusCode::MISDIRECTED_REQUEST,
                text,
            )))
        }
    }
}

/// Whether no page of another site asks.
///
/// # Errors
/// The refusal, if one does.
pub(crate) fn check_site(request: &HttpRequest) -> Result<(), Box<HttpAnswer>> {
    let site = request.headers.get(SITE).map(|site| site.as_bytes());
    match site {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => {
            let text = "the dashboard answers its own page, and no page of another site\n";
            Err(Box::new(plain_answer(StatusCode::FORBIDDEN, text)))
        }
    }
}

/// Whether a host, with or without a port, is an address or `localhost`.
fn is_own(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<Ipv6Addr>().is_ok() => (None, port),
            _ => return false,
        },
        None => match host.find(':') {
            Some(place) => (Some(&host[..place]), &host[place..]),
            None => (Some(host), ""),
        },
    };
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_number);
    let is_name = name.is_none_or(|name| {
        let is_address = matches!(name.parse(), Ok(IpAddr::V4(_)));
        is_address || name.eq_ignore_ascii_case("localhost")
    });
    is_port && is_name
}

fn is_number(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn addresses_and_localhost_are_own_names() {
        let own = [
            "localhost",
            "LocalHost:8080",
            "127.0.0.1",
            "127.0.0.1:8080",
            "192.0.2.1:1",
            "[::1]",
            "[::1]:8080",
        ];
        for host in own {
            assert!(is_own(host), "{host}");
        }
        let others = [
            "",
            ":8080",
            "example.org",
            "example.org:8080",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "127.0.0.1:x",
            "127.0.0.1:99999",
            "::1",
            "[::1",
            "[example.org]",
            "[::1]x",
            "localhost@example.org",
        ];
        for host in others {
            assert!(!is_own(host), "{host}");
        }
    }
}
