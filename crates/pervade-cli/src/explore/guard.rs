//! Who may ask: the user's browser, which knows the token, through an address of this machine.

use std::sync::Mutex;

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{StatusCode, Uri};
use pervade::{Error, Result};

/// The header with the token. A page of another site cannot send it without permission, which is never given.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-pervade-token");
/// Bytes of a token.
const BYTES: usize = 24;

/// The names under which the server answers, and the token.
pub(crate) struct Guard {
    port: u16,
    token: String,
    /// A code that is exchanged for the token once: arguments of the browser's process can be seen by other users.
    code: Mutex<Option<String>>,
}

impl Guard {
    pub(crate) fn new(port: u16) -> Result<Self> {
        Ok(Self { port, token: random()?, code: Mutex::new(Some(random()?)) })
    }

    /// With a token that is known beforehand, for [`InMemory`](super::InMemory).
    pub(super) fn with_token(port: u16, token: &str) -> Self {
        Self { port, token: token.to_string(), code: Mutex::new(Some(format!("once-{token}"))) }
    }

    /// The address of the page, for its user.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// An address that leads to the page once.
    pub(crate) fn url_for_opening(&self) -> String {
        let code = self.code.lock().map(|code| code.clone().unwrap_or_default()).unwrap_or_default();
        format!("http://127.0.0.1:{}/?code={code}", self.port)
    }

    /// An error for requests under another name, as a site makes them whose name was turned into this machine's address,
    /// and for requests of other sites' pages.
    pub(super) fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> std::result::Result<(), StatusCode> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(StatusCode::BAD_REQUEST) };
        let is_ours = |name: &[u8]| {
            ["127.0.0.1", "localhost"].iter().any(|ours| name == format!("{ours}:{}", self.port).as_bytes())
        };
        let authority = uri.authority().is_none_or(|authority| is_ours(authority.as_str().as_bytes()));
        let origin = headers
            .get(ORIGIN)
            .is_none_or(|origin| origin.as_bytes().strip_prefix(b"http://").is_some_and(is_ours));
        if is_ours(host.as_bytes()) && authority && origin { Ok(()) } else { Err(StatusCode::FORBIDDEN) }
    }

    /// Whether the address has the token.
    pub(super) fn knows_uri(&self, uri: &Uri) -> bool {
        value(uri, "token").is_some_and(|token| same(token, &self.token))
    }

    /// Whether the header has the token.
    pub(super) fn knows_header(&self, headers: &HeaderMap) -> bool {
        headers.get(TOKEN).and_then(|token| token.to_str().ok()).is_some_and(|token| same(token, &self.token))
    }

    /// The address of the page, if the request has the code, which is then used up.
    pub(super) fn redeem(&self, uri: &Uri) -> Option<String> {
        let given = value(uri, "code")?;
        let mut code = self.code.lock().ok()?;
        code.take_if(|code| same(given, code))?;
        Some(format!("/?token={}", self.token))
    }
}

/// The value of a parameter of the address.
fn value<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
}

/// Whether two texts are the same, in a time that depends only on their lengths.
fn same(given: &str, known: &str) -> bool {
    let differences = given.bytes().zip(known.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == known.len() && std::hint::black_box(differences) == 0
}

fn random() -> Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::device(format!("the system gave no random numbers for the token: {e}")))?;
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(digits.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let guard = Guard::new(4000).unwrap();
        let at = |uri: &'static str, pairs: &[(&'static str, &'static str)]| {
            guard.check_host(&Uri::from_static(uri), &headers(pairs))
        };
        assert!(at("/", &[("host", "127.0.0.1:4000")]).is_ok());
        assert!(at("/", &[("host", "localhost:4000"), ("origin", "http://localhost:4000")]).is_ok());
        for host in [
            "evil.example",
            "evil.example:4000",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost:40000",
            "[::1]:4000",
        ] {
            assert!(at("/", &[("host", host)]).is_err(), "{host}");
        }
        assert!(at("/", &[]).is_err());
        assert!(at("http://evil.example/", &[("host", "localhost:4000")]).is_err());
        assert!(at("/", &[("host", "localhost:4000"), ("origin", "http://evil.example")]).is_err());
        assert!(at("/", &[("host", "localhost:4000"), ("origin", "null")]).is_err());
    }

    #[test]
    fn the_code_leads_to_the_page_once() {
        let guard = Guard::new(4000).unwrap();
        let url: Uri = guard.url_for_opening().parse().unwrap();
        assert!(!guard.knows_uri(&url) && guard.redeem(&Uri::from_static("/?code=")).is_none());
        let page: Uri = guard.redeem(&url).unwrap().parse().unwrap();
        assert!(guard.knows_uri(&page) && guard.redeem(&url).is_none());
        let shorter = page.to_string();
        assert!(!guard.knows_uri(&shorter[..shorter.len() - 1].parse().unwrap()));
        assert_ne!(guard.token, Guard::new(4000).unwrap().token);
    }
}
