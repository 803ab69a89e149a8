//! Access control: identifies the user of a request and checks the user's role.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use transfix::{Actor, clock};

use crate::answer::Refusal;
use crate::app::App;
use crate::places::ConnectionPermit;
use crate::refusals::Refusals;
use crate::users::{Role, sha256_hex};

/// Name of the login cookie.
pub(crate) const COOKIE: &str = "transfix_login";
/// Header that a changing request must send if a cookie authenticates the request.
pub(crate) const CSRF: &str = "x-csrf-token";

/// An authenticated user or token with its role.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) name: String,
    pub(crate) role: Role,
    from: SocketAddr,
    /// Value that a changing request must send in the header [`CSRF`]. `None` for a token, because
    /// a page of another site cannot send a token.
    pub(crate) csrf: Option<String>,
    /// Login cookie of the request, needed for logging out; `None` if the request sent a token.
    pub(crate) cookie: Option<String>,
    brought: Option<String>,
    /// Method and path of the request, such as `POST /api/engine/reload`.
    asked: String,
    refusals: Arc<Refusals>,
}

impl Access {
    pub(crate) fn actor(&self) -> Actor {
        Actor::new(&*self.name, self.from.to_string())
    }

    /// Checks that the user has at least the role `role` and that the CSRF header is correct. A
    /// refusal is counted for the audit.
    ///
    /// # Errors
    /// Returns a [`Refusal`] with status 403 and the reason.
    pub(crate) fn must_be(&self, role: Role) -> Result<(), Refusal> {
        let may = self.check(role);
        if let Err(why) = &may {
            let actor = self.actor();
            if let Some(why) = self.refusals.count(&actor, why) {
                let (refusals, what) = (Arc::clone(&self.refusals), self.asked.clone());
                // The request is refused in any case, so the answer does not wait until the audit
                // line is on the disk.
                drop(tokio::task::spawn_blocking(move || refusals.write(&actor, &what, &why)));
            }
        }
        may.map_err(|why| Refusal::new(StatusCode::FORBIDDEN, why))
    }

    fn check(&self, role: Role) -> Result<(), String> {
        if self.csrf != self.brought && self.csrf.is_some() {
            return Err(format!(
                "the request lacks the header {CSRF} or has an old value; load the \
                                page again"
            ));
        }
        if self.role < role {
            return Err(format!(
                "{} may not do this: the request needs the role {role}",
                self.name
            ));
        }
        Ok(())
    }
}

/// Returns the value of the login cookie.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| name.trim() == COOKIE).map(|(_, value)| value.trim())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (kind, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    kind.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Returns the address of the client, or `0.0.0.0:0` if the address is unknown.
pub(crate) fn from(parts: &Parts) -> SocketAddr {
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map_or(unknown, |info| info.0)
}

fn find(parts: &Parts, app: &App) -> Option<Access> {
    let (from, users) = (from(parts), app.users.now());
    let asked = format!("{} {}", parts.method, parts.uri.path());
    let refusals = Arc::clone(&app.refusals);
    if let Some(token) = bearer(&parts.headers) {
        let hash = sha256_hex(token);
        let token = users.tokens.iter().find(|one| one.sha256.eq_ignore_ascii_case(&hash))?;
        let (name, role) = (token.name.clone(), token.role);
        let (csrf, cookie, brought) = (None, None, None);
        return Some(Access { name, role, from, csrf, cookie, brought, asked, refusals });
    }
    let cookie = cookie(&parts.headers)?;
    let login = app.logins.find(cookie, clock::monotonic_ns())?;
    // Logins of a removed user, or of a user with a changed password, are no longer valid.
    let user = users.users.iter().find(|user| user.name == login.name)?;
    if user.password_hash != login.password_hash || !user.may_come_from(from.ip()) {
        return None;
    }
    let brought = parts.headers.get(CSRF).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Some(Access {
        name: login.name,
        role: user.role,
        from,
        csrf: Some(login.csrf),
        cookie: Some(cookie.to_owned()),
        brought,
        asked,
        refusals,
    })
}

impl FromRequestParts<Arc<App>> for Access {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let access = find(parts, app).ok_or_else(|| {
            Refusal::new(StatusCode::UNAUTHORIZED, "log in, or send a valid token")
        })?;
        if let Some(seat) = parts.extensions.get::<Arc<ConnectionPermit>>() {
            seat.keep(&access.name);
        }
        Ok(access)
    }
}
