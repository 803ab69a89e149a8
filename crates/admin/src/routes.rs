//! The HTTP routes, their required roles and their handlers.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt as _};
use transfix::{
    Action, Actor, EngineAction, EventCode, EventLevels, EventLevelsError, LatencyStage,
    ShownSettings, clock,
};

use crate::access::{Access, COOKIE, from};
use crate::adding;
use crate::answer::{Input, Named, Refusal, Wanted};
use crate::app::{App, blocking, in_place};
use crate::connection::whole;
use crate::filter::EventFilter;
use crate::shown::{details, moment, session};
use crate::users::{NOBODY, Role};
use crate::{health, journals, metrics, page};

/// Maximum number of events or audit lines in one answer.
const LINES_MAX: usize = 1_000;
/// Maximum duration of an event stream, after which the client must reconnect.
const STREAM_MAX: Duration = Duration::from_secs(600);

type Shared = State<Arc<App>>;
type Answer = Result<Json<Value>, Refusal>;

/// Returns method, path and handler of each route. The router is built from this list, and a test
/// compares it with `openapi.json`.
pub(crate) fn served() -> Vec<(&'static str, &'static str, MethodRouter<Arc<App>>)> {
    let get_by = |path, handler| ("get", path, handler);
    let post_by = |path, handler| ("post", path, handler);
    vec![
        post_by("/api/login", post(log_in)),
        post_by("/api/logout", post(log_out)),
        get_by("/api/me", get(me)),
        get_by("/api/sessions", get(sessions)),
        post_by("/api/sessions", post(add_session)),
        get_by("/api/sessions/{id}", get(one_session)),
        ("put", "/api/sessions/{id}", put(change_session)),
        ("delete", "/api/sessions/{id}", delete(remove_session)),
        get_by("/api/sessions/{id}/latency/{stage}", get(latency)),
        post_by("/api/sessions/{id}/actions", post(act)),
        get_by("/api/sessions/{id}/messages", get(journals::messages)),
        get_by("/api/engine", get(engine)),
        get_by("/api/fleet", get(fleet)),
        post_by("/api/engine/reload", post(reload)),
        post_by("/api/engine/rotate-logs", post(rotate_logs)),
        post_by("/api/engine/stop", post(stop)),
        get_by("/api/events", get(events)),
        get_by("/api/events/codes", get(codes)),
        get_by("/api/events/levels", get(levels)),
        ("put", "/api/events/levels", put(set_levels)),
        get_by("/api/events/stream", get(event_stream)),
        get_by("/api/audit", get(audit)),
        get_by("/api/settings", get(settings)),
        get_by("/api/certificates", get(certificates)),
        get_by("/api/openapi.json", get(page::openapi)),
        get_by("/metrics", get(metrics::metrics)),
        get_by("/health/live", get(health::live)),
        get_by("/health/ready", get(health::ready)),
    ]
}

pub(crate) fn router(app: Arc<App>) -> Router {
    let all = served()
        .into_iter()
        .fold(Router::new(), |router, (_, path, handler)| router.route(path, handler));
    all.merge(page::routes())
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(whole))
        .layer(middleware::from_fn(secured))
        .with_state(app)
}

/// Adds security headers to an answer, which restrict what a browser may do with it.
async fn secured(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    // `require-trusted-types-for` makes the browser reject strings that a script inserts as HTML.
    let policy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
                  form-action 'self'; require-trusted-types-for 'script'";
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn unknown() -> Refusal {
    Refusal::not_found("this path does not exist; /api/openapi.json lists all paths")
}

async fn wrong_method() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not support the method; \
        /api/openapi.json lists the methods",
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    name: String,
    password: String,
}

async fn log_in(State(app): Shared, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let peer = from(&parts);
    let source = peer.ip();
    let request = Request::from_parts(parts, body);
    let input = <Input<Credentials> as axum::extract::FromRequest<_>>::from_request(request, &app);
    let Input(Credentials { name, password }) = input.await?;
    let later = |left: Duration| {
        let seconds = left.as_secs() + 1;
        let why = format!("too many wrong passwords; try again in {seconds} s");
        Refusal::later(why, seconds)
    };
    let _turn = app.throttle.enter(source, &name).await.map_err(later)?;
    let place = app.limits.check().await?;
    let users = app.users.now();
    let user = users.users.iter().find(|user| user.name == name).cloned();
    let hash = user.as_ref().map_or(NOBODY, |user| &*user.password_hash).to_owned();
    let of_check = Arc::clone(&app);
    let is_right =
        in_place(place, move || of_check.admin.is_password_of(&hash, &password, Some(source)))
            .await?;
    let is_right = is_right.map_err(|error| Refusal::failed(error.to_string()))?;
    let is_user = user.is_some();
    let Some(user) = user.filter(|user| is_right && user.may_come_from(source)) else {
        app.throttle.failed(source, &name, is_user);
        return Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "the user name or the password is wrong",
        ));
    };
    let (admin, actor) = (app.admin.clone(), Actor::new(&*user.name, peer.to_string()));
    let noted = blocking(move || admin.note(&actor, "log in", Ok(""))).await?;
    noted.map_err(|error| Refusal::failed(error.to_string()))?;
    let now_ns = clock::monotonic_ns();
    app.throttle.succeeded(source, &name, now_ns);
    let begun = app.logins.begin(&user.name, &user.password_hash, now_ns);
    let (cookie, login) = begun.map_err(|error| Refusal::failed(error.to_string()))?;
    tracing::info!(user = user.name, peer = %source, "logged in to the administration");
    let secure = if app.is_tls { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={cookie}; HttpOnly; SameSite=Strict; Path=/{secure}");
    let body = json!({ "name": user.name, "role": user.role.as_str(), "csrf": login.csrf });
    Ok(([(header::SET_COOKIE, cookie)], Json(body)).into_response())
}

async fn log_out(State(app): Shared, access: Access) -> Result<Response, Refusal> {
    access.must_be(Role::Viewer)?;
    if let Some(cookie) = &access.cookie {
        app.logins.end(cookie);
    }
    let cookie = format!("{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    Ok(([(header::SET_COOKIE, cookie)], Json(json!({ "done": true }))).into_response())
}

async fn me(access: Access) -> Json<Value> {
    Json(json!({ "name": access.name, "role": access.role.as_str(), "csrf": access.csrf }))
}

async fn sessions(State(app): Shared, _: Access) -> Answer {
    let shown = blocking(move || {
        let all: Vec<_> = app.admin.handles().iter().map(session).collect();
        let now = moment(clock::now().utc);
        json!({ "now": now, "now_ns": clock::monotonic_ns(), "sessions": all })
    });
    Ok(Json(shown.await?))
}

async fn one_session(State(app): Shared, _: Access, Named(id): Named<String>) -> Answer {
    let handle = app.session(&id)?;
    let shown = blocking(move || {
        let mut shown = details(&handle);
        shown["now"] = moment(clock::now().utc).into();
        shown["now_ns"] = clock::monotonic_ns().into();
        shown
    });
    Ok(Json(shown.await?))
}

/// Answers with the latency distribution of one stage, in the format of the HdrHistogram plotter.
async fn latency(
    State(app): Shared,
    _: Access,
    Named((id, stage)): Named<(String, String)>,
) -> Result<String, Refusal> {
    let handle = app.session(&id)?;
    let found = LatencyStage::ALL.into_iter().find(|one| one.as_str() == stage);
    let stage = found.ok_or_else(|| {
        let all = LatencyStage::ALL.map(LatencyStage::as_str).join(", ");
        Refusal::not_found(format!("this stage does not exist; the stages are {all}"))
    })?;
    blocking(move || handle.latency().stage(stage).to_hgrm()).await
}

/// Body of a request for an action on a session. A dangerous action must repeat the session's name
/// in `confirm`.
#[derive(Deserialize)]
struct ActionRequest {
    #[serde(default)]
    confirm: Option<String>,
    #[serde(flatten)]
    action: Value,
}

/// Converts floats without a fraction to integers, because JSON allows `5.0` for `5`.
fn make_whole(value: &mut Value) {
    /// From 2^53 on, a float cannot represent every integer.
    const END: f64 = (1_u64 << 53) as f64;
    let number = value.as_f64().filter(|_| value.is_f64());
    if let Some(number) = number.filter(|n| n.fract() == 0.0 && (0.0..END).contains(n)) {
        *value = (number as u64).into();
    }
}

async fn act(
    State(app): Shared,
    access: Access,
    Named(id): Named<String>,
    Input(ActionRequest { confirm, mut action }): Input<ActionRequest>,
) -> Answer {
    access.must_be(Role::Operator)?;
    action.as_object_mut().into_iter().flatten().for_each(|(_, value)| make_whole(value));
    let action = serde_json::from_value::<Action>(action);
    let action = action.map_err(|error| Refusal::bad(error.to_string()))?;
    let handle = app.session(&id)?;
    if action.is_dangerous() {
        access.must_be(Role::Administrator)?;
        if confirm.as_deref() != Some(&*id) {
            let name = action.name();
            let why = format!("{name} is dangerous; write \"confirm\": \"{id}\" to confirm it");
            return Err(Refusal::new(StatusCode::PRECONDITION_REQUIRED, why));
        }
    }
    let place = app.limits.action().await?;
    let done = in_place(place, move || {
        let done = app.admin.act(&access.actor(), handle.id(), &action);
        done.map(|_| session(&handle))
    });
    Ok(Json(json!({ "done": true, "session": done.await?? })))
}

/// Body of a request with one session in the format of the settings file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewSession {
    settings: String,
}

async fn add_session(
    State(app): Shared,
    access: Access,
    Input(NewSession { settings }): Input<NewSession>,
) -> Answer {
    access.must_be(Role::Administrator)?;
    let session = adding::session_of(&settings, &app.admin, adding::New::Added);
    let session = session.map_err(|why| Refusal::new(StatusCode::CONFLICT, why))?;
    of_engine(app, access, EngineAction::Add(Box::new(session))).await
}

async fn change_session(
    State(app): Shared,
    access: Access,
    Named(id): Named<String>,
    Input(NewSession { settings }): Input<NewSession>,
) -> Answer {
    access.must_be(Role::Administrator)?;
    let handle = app.session(&id)?;
    let session = adding::session_of(&settings, &app.admin, adding::New::InPlaceOf(&handle));
    let session = session.map_err(|why| Refusal::new(StatusCode::CONFLICT, why))?;
    of_engine(app, access, EngineAction::Change(Box::new(session))).await
}

/// Query of a request to remove a session: the session's name as confirmation, and the Text(58) of
/// the Logout(5).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Removal {
    confirm: Option<String>,
    #[serde(default)]
    text: String,
}

async fn remove_session(
    State(app): Shared,
    access: Access,
    Named(id): Named<String>,
    Wanted(Removal { confirm, text }): Wanted<Removal>,
) -> Answer {
    access.must_be(Role::Administrator)?;
    let session = app.session(&id)?.id().clone();
    if confirm.as_deref() != Some(&*id) {
        let why = format!("the removal of a session is dangerous; add confirm={id} to confirm it");
        return Err(Refusal::new(StatusCode::PRECONDITION_REQUIRED, why));
    }
    of_engine(app, access, EngineAction::Remove { id: session, text }).await
}

/// Answers with data about the engine and the program.
async fn engine(State(app): Shared, _: Access) -> Json<Value> {
    let listening = app.admin.listening();
    let listening: Vec<_> = listening.iter().map(ToString::to_string).collect();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "now": moment(clock::now().utc),
        "process": std::process::id(),
        "listening": listening,
        "tls": app.is_tls,
        "fleet": app.fleet.is_some(),
        "settings_file": app.settings_file.as_ref().map(|path| path.display().to_string()),
        "audit_file": app.audit_file.as_ref().map(|path| path.display().to_string()),
    }))
}

/// Answers with the gateways of the fleet and the owners of the sessions.
async fn fleet(State(app): Shared, _: Access) -> Answer {
    let none = || Refusal::not_found("this engine is no gateway of a fleet");
    let fleet = app.fleet.as_ref().ok_or_else(none)?;
    let unknown = |why| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, format!("the fleet: {why}"));
    Ok(Json(fleet.now().await.map_err(unknown)?.shown()))
}

async fn reload(State(app): Shared, access: Access) -> Answer {
    of_engine(app, access, EngineAction::Reload).await
}

async fn rotate_logs(State(app): Shared, access: Access) -> Answer {
    of_engine(app, access, EngineAction::RotateLogs).await
}

/// Body of a request to stop the engine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stop {
    confirm: String,
}

async fn stop(State(app): Shared, access: Access, Input(Stop { confirm }): Input<Stop>) -> Answer {
    access.must_be(Role::Administrator)?;
    if confirm != "stop" {
        let why = "add \"confirm\": \"stop\" to stop the engine";
        return Err(Refusal::new(StatusCode::PRECONDITION_REQUIRED, why));
    }
    of_engine(app, access, EngineAction::Stop).await
}

async fn of_engine(app: Arc<App>, access: Access, action: EngineAction) -> Answer {
    access.must_be(Role::Administrator)?;
    let place = app.limits.request(&action)?;
    let said = in_place(place, move || app.admin.request(&access.actor(), action)).await??;
    Ok(Json(json!({ "done": true, "said": said })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsWanted {
    #[serde(default)]
    after: u64,
    session: Option<String>,
    limit: Option<usize>,
}

async fn events(State(app): Shared, _: Access, Wanted(wanted): Wanted<EventsWanted>) -> Answer {
    let limit = wanted.limit.unwrap_or(200).min(LINES_MAX);
    let events = app.events.after(wanted.after, wanted.session.as_deref(), limit);
    let events: Vec<_> = events.iter().map(|event| json!(**event)).collect();
    Ok(Json(json!({ "events": events })))
}

/// Answers with the meaning and the remedy of each event code.
async fn codes(_: Access) -> Json<Value> {
    let all = EventCode::ALL.iter().map(|code| {
        let levels: Vec<_> = code.levels().iter().map(|level| level.as_str()).collect();
        json!({
            "code": code.as_u16(),
            "name": code.name(),
            "levels": levels,
            "text": code.text(),
            "remedy": code.remedy(),
        })
    });
    Json(json!({ "codes": all.collect::<Vec<_>>() }))
}

impl App {
    fn filter(&self) -> Result<&EventFilter, Refusal> {
        let none = "this program does not let the administration see or set the levels of events";
        self.filter.as_ref().ok_or_else(|| Refusal::not_found(none))
    }
}

fn shown_levels(filter: &EventFilter) -> Json<Value> {
    let (levels, of_settings) = (filter.levels().to_string(), filter.of_settings().to_string());
    let said = match filter.is_set() {
        true => format!(
            "{levels} until the next start or reload; the levels in the settings are \
                         {of_settings}"
        ),
        false => format!("{levels}, from the settings"),
    };
    Json(json!({
        "levels": levels,
        "of_settings": of_settings,
        "is_set": filter.is_set(),
        "said": said,
    }))
}

async fn levels(State(app): Shared, _: Access) -> Answer {
    Ok(shown_levels(app.filter()?))
}

/// Body of a request to set the levels of events.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Levels {
    levels: String,
}

async fn set_levels(
    State(app): Shared,
    access: Access,
    Input(Levels { levels }): Input<Levels>,
) -> Answer {
    access.must_be(Role::Administrator)?;
    let filter = app.filter()?.clone();
    let levels = levels.parse::<EventLevels>().map_err(|why| {
        let status = match why {
            EventLevelsError::Twice(_) => StatusCode::CONFLICT,
            _ => StatusCode::BAD_REQUEST,
        };
        Refusal::new(status, format!("levels: {why}"))
    })?;
    let action = EngineAction::SetLevels(levels.clone());
    let set = filter.clone();
    let done = blocking(move || {
        app.admin.audited(&access.actor(), &action, || {
            set.set(levels);
            Ok("until the next start or reload".to_owned())
        })
    });
    done.await??;
    Ok(shown_levels(&filter))
}

/// Streams events as they occur, for at most [`STREAM_MAX`].
async fn event_stream(
    State(app): Shared,
    _: Access,
) -> Sse<impl Stream<Item = Result<Event, axum::Error>>> {
    let news = BroadcastStream::new(app.events.subscribe());
    let stream = news.map(|event| match event {
        Ok(event) => Event::default().id(event.n.to_string()).json_data(&*event),
        Err(BroadcastStreamRecvError::Lagged(count)) => {
            Ok(Event::default().event("missed").data(count.to_string()))
        }
    });
    // After the stream ends, the page reconnects and must authenticate again.
    let end = tokio_stream::once(()).then(|()| tokio::time::sleep(STREAM_MAX)).map(|()| None);
    let stream = stream.map(Some).merge(end).take_while(Option::is_some).filter_map(|one| one);
    Sse::new(stream).keep_alive(KeepAlive::default())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    limit: Option<usize>,
}

async fn audit(State(app): Shared, _: Access, Wanted(Limit { limit }): Wanted<Limit>) -> Answer {
    let Some(path) = app.audit_file.clone() else {
        return Err(Refusal::not_found(
            "there is no audit, because `audit_file` in [engine] is not \
                                       set",
        ));
    };
    let limit = limit.unwrap_or(200).min(LINES_MAX);
    let lines = blocking(move || journals::last_lines(&path, limit)).await?;
    let lines = lines.map_err(|error| Refusal::failed(error.to_string()))?;
    Ok(Json(json!({ "lines": lines })))
}

/// Query for settings. Without `session`, the answer contains all settings; otherwise those of the
/// engine and of this session. An empty `session` requests only those of the engine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsWanted {
    session: Option<String>,
}

async fn settings(
    State(app): Shared,
    _: Access,
    Wanted(SettingsWanted { session }): Wanted<SettingsWanted>,
) -> Answer {
    let Some(path) = app.settings_file.clone() else {
        return Err(Refusal::not_found("this program has no settings file"));
    };
    let shown = blocking(move || transfix::Settings::shown(path)).await?;
    let shown = shown.map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        Refusal::new(StatusCode::CONFLICT, errors.join("\n"))
    })?;
    let is_wanted = |part: &&ShownSettings| match (&part.id, &session) {
        (Some(id), Some(session)) => id.to_string() == *session,
        _ => true,
    };
    let parts = shown.iter().filter(is_wanted).map(|part| {
        let keys = part.keys.iter().map(|key| {
            json!({
                "table": key.table,
                "key": key.key,
                "value": key.value,
                "origin": page::origin(&key.origin),
            })
        });
        json!({
            "session": part.id.as_ref().map(ToString::to_string),
            "place": part.place,
            "keys": keys.collect::<Value>(),
        })
    });
    Ok(Json(json!({ "parts": parts.collect::<Value>() })))
}

async fn certificates(State(app): Shared, _: Access) -> Answer {
    let all = blocking(move || app.admin.certificates().all()).await?;
    let all = all.iter().map(|one| {
        json!({
            "file": one.file.display().to_string(),
            "shown_by": one.shown_by,
            "subject": one.subject,
            "sha256": one.sha256,
            "not_after_s": one.not_after_s,
            "days_left": one.days_left,
            "refused": one.refused,
        })
    });
    Ok(Json(json!({ "certificates": all.collect::<Value>() })))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_number_without_a_fraction_is_whole() {
        for (written, expected) in [
            ("5.0", "5"),
            ("5", "5"),
            ("1e3", "1000"),
            ("5.5", "5.5"),
            ("-1.0", "-1.0"),
            ("1e300", "1e300"),
            ("18446744073709551615", "18446744073709551615"),
            ("\"5.0\"", "\"5.0\""),
        ] {
            let mut value: Value = serde_json::from_str(written).unwrap();
            make_whole(&mut value);
            assert_eq!(value, serde_json::from_str::<Value>(expected).unwrap(), "{written}");
        }
    }

    #[test]
    fn what_is_served_is_what_is_described() {
        let text = include_str!("assets/openapi.json");
        let described: Value = serde_json::from_str(text).unwrap();
        let paths = described["paths"].as_object().unwrap();
        let described: BTreeSet<_> = paths
            .iter()
            .flat_map(|(path, item)| {
                item.as_object().unwrap().keys().map(move |method| (&**method, &**path))
            })
            .collect();
        let served: BTreeSet<_> =
            served().iter().map(|(method, path, _)| (*method, *path)).collect();
        assert_eq!(described, served);
    }

    /// The hash that stands in for an unknown user must be valid: an invalid hash is refused
    /// faster, which would reveal that the name is unknown.
    #[test]
    fn the_hash_that_nobody_has_is_one_that_is_computed() {
        let text = format!(
            "[[session]]\nrole = 'acceptor'\nbegin_string = 'FIX.4.4'\nsender_comp_id = 'A'\n\
             target_comp_id = 'B'\naddress = '127.0.0.1:0'\n\
             logon.expected_password_hash = '{NOBODY}'\n"
        );
        transfix::Settings::parse("x.toml", &text).unwrap();
        assert!(transfix::hash_password("x").unwrap().reveal().starts_with(&NOBODY[..30]));
        assert!(!transfix::is_password_of(NOBODY, ""));
    }
}
