//! Access control, decided from a request's head alone.
//!
//! A page of any other site can make a browser send requests here, and can make a name of its own resolve to this machine
//! (DNS rebinding). The accepted names of this server are therefore a fixed list and never taken from the request. Requests
//! that browsers mark as coming from another site are refused. Requests that change something must carry a header that no
//! form and no foreign page can send. All requests except those for the page itself need the cookie that is given in
//! exchange for a token.

use crate::http::Head;

/// The header that only the page itself sends. A foreign page needs a CORS preflight for it, which this server never grants.
pub const OWN_HEADER: &str = "x-constel";

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It was sent to another name than those of this server.
    Host,
    /// Another site's page sent it.
    Origin,
    /// It changes something and does not come from the page.
    Header,
    /// It has no session.
    Session,
}

impl Refusal {
    /// The status of the answer.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Host => 421,
            Self::Session => 401,
            Self::Origin | Self::Header => 403,
        }
    }

    /// The words of the answer.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Host => {
                "this server answers under the name that it printed; through an SSH tunnel, keep its port: \
                 ssh -L PORT:127.0.0.1:PORT HOST"
            }
            Self::Origin => "this was sent by a page of another site",
            Self::Header => "what changes something must come from the page itself",
            Self::Session => "no session: open the address that `constel web` printed last",
        }
    }
}

/// The names of this server.
#[derive(Debug, Clone)]
pub struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
    cookie: String,
}

impl Guard {
    /// Creates the rules for a server on this port of the loopback interface.
    #[must_use]
    pub fn new(port: u16) -> Self {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        Self {
            origins: hosts.iter().map(|host| format!("http://{host}")).collect(),
            hosts,
            // Cookies know no ports: servers side by side must not overwrite each other's.
            cookie: format!("constel-{port}"),
        }
    }

    /// The name of the session's cookie.
    #[must_use]
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Checks every request: it must be sent to one of the accepted names, and not by the page of another site.
    ///
    /// # Errors
    /// The reason.
    pub fn name(&self, head: &Head) -> Result<(), Refusal> {
        let host = head.only("host").ok_or(Refusal::Host)?;
        if !self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host)) {
            return Err(Refusal::Host);
        }
        match head.all("origin").as_slice() {
            [] => {}
            [origin] if self.origins.iter().any(|own| own == origin) => {}
            _ => return Err(Refusal::Origin),
        }
        match head.only("sec-fetch-site") {
            Some("cross-site" | "same-site") if head.path != "/" => Err(Refusal::Origin),
            _ => Ok(()),
        }
    }

    /// Checks a request that changes something or opens a socket: it must also state this server's origin explicitly.
    ///
    /// # Errors
    /// [`Refusal::Origin`].
    pub fn origin(&self, head: &Head) -> Result<(), Refusal> {
        match head.only("origin") {
            Some(_) => self.name(head),
            None => Err(Refusal::Origin),
        }
    }

    /// Checks a request that changes something.
    ///
    /// # Errors
    /// [`Refusal::Origin`], [`Refusal::Header`].
    pub fn change(&self, head: &Head) -> Result<(), Refusal> {
        self.origin(head)?;
        match head.only(OWN_HEADER) {
            Some("1") => Ok(()),
            _ => Err(Refusal::Header),
        }
    }

    /// Returns the session that a request claims.
    #[must_use]
    pub fn session<'a>(&self, head: &'a Head) -> Option<&'a str> {
        let cookies = head.all("cookie");
        let pairs = cookies.into_iter().flat_map(|line| line.split(';'));
        let mut own = pairs.filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        });
        // Two cookies of one name mean that another site has set one beside ours.
        own.next().filter(|_| own.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(path: &str, fields: &[(&str, &str)]) -> Head {
        Head {
            method: "GET".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            fields: fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn only_our_own_names_are_answered() {
        let guard = Guard::new(8080);
        let of = |host: &str| guard.name(&head("/", &[("host", host)]));
        for good in [
            "127.0.0.1:8080",
            "localhost:8080",
            "LOCALHOST:8080",
            "[::1]:8080",
        ] {
            assert_eq!(of(good), Ok(()), "{good}");
        }
        for bad in [
            "evil.example:8080",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:8080.evil.example",
            "",
        ] {
            assert_eq!(of(bad), Err(Refusal::Host), "{bad}");
        }
        assert_eq!(guard.name(&head("/", &[])), Err(Refusal::Host));
        let twice = [("host", "127.0.0.1:8080"), ("host", "evil.example")];
        assert_eq!(guard.name(&head("/", &twice)), Err(Refusal::Host));
    }

    #[test]
    fn a_rebound_name_is_refused_though_its_origin_agrees_with_its_host() {
        let fields = [
            ("host", "evil.example:8080"),
            ("origin", "http://evil.example:8080"),
        ];
        assert_eq!(
            Guard::new(8080).origin(&head("/api/do", &fields)),
            Err(Refusal::Host)
        );
    }

    #[test]
    fn origins_are_compared_whole() {
        let guard = Guard::new(8080);
        let of = |origin: &str| {
            let fields = [("host", "127.0.0.1:8080"), ("origin", origin)];
            guard.origin(&head("/api/socket", &fields))
        };
        assert_eq!(of("http://127.0.0.1:8080"), Ok(()));
        for bad in [
            "null",
            "http://127.0.0.1",
            "http://127.0.0.1:80801",
            "https://127.0.0.1:8080",
            "http://127.0.0.1:8080.evil.example",
            "http://evil.example",
        ] {
            assert_eq!(of(bad), Err(Refusal::Origin), "{bad}");
        }
        let none = [("host", "127.0.0.1:8080")];
        assert_eq!(
            guard.origin(&head("/api/socket", &none)),
            Err(Refusal::Origin)
        );
        let cross = [("host", "127.0.0.1:8080"), ("sec-fetch-site", "cross-site")];
        assert_eq!(
            guard.name(&head("/api/world", &cross)),
            Err(Refusal::Origin)
        );
        assert_eq!(guard.name(&head("/", &cross)), Ok(()), "a link to the page");
    }

    #[test]
    fn a_change_wants_the_pages_own_header() {
        let guard = Guard::new(8080);
        let own = [
            ("host", "127.0.0.1:8080"),
            ("origin", "http://127.0.0.1:8080"),
        ];
        assert_eq!(guard.change(&head("/api/do", &own)), Err(Refusal::Header));
        let with = [own[0], own[1], (OWN_HEADER, "1")];
        assert_eq!(guard.change(&head("/api/do", &with)), Ok(()));
    }

    #[test]
    fn the_session_is_the_only_cookie_of_its_name() {
        let guard = Guard::new(8080);
        let of = |line: &'static str| {
            let head = head("/", &[("cookie", line)]);
            guard.session(&head).map(str::to_owned)
        };
        assert_eq!(of("a=b; constel-8080=xyz; c=d").as_deref(), Some("xyz"));
        assert_eq!(of("constel-80=xyz"), None);
        assert_eq!(of("constel-8080=one; constel-8080=two"), None);
    }
}
