//! The health of the process: it lives, and it is ready for its work.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use transfix::{SessionStatus, clock};

use crate::app::{App, blocking};
use crate::shown::is_open;

/// The process answers.
pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "live": true }))
}

/// Why the engine is not ready: nothing if it is. Ready means: there are sessions or listeners,
/// connections are accepted where it listens, and the store of each session that is open by its
/// schedule takes something. Logons do not count, because counterparties decide about them.
/// Everybody may ask, so no session is named.
pub(crate) fn unready(app: &App) -> Vec<String> {
    let now = clock::now().utc;
    let handles = app.admin.handles();
    let failed = handles.iter().filter(|handle| {
        let SessionStatus { store_has_failed, .. } = handle.status();
        store_has_failed && is_open(handle, now)
    });
    let mut why = Vec::new();
    let failed = failed.count();
    if failed > 0 {
        why.push(format!("stores that cannot be written: {failed}"));
    }
    // As it is now: a reload opens and closes listeners.
    let listens = !app.admin.listening().is_empty();
    if listens && !app.admin.accepts() {
        why.push("connections are not accepted".to_owned());
    }
    if handles.is_empty() && !listens {
        why.push("there is no session and no listener".to_owned());
    }
    why
}

pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    match blocking(move || unready(&app)).await {
        Ok(why) => {
            let is_ready = why.is_empty();
            let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            (status, Json(json!({ "ready": is_ready, "why": why }))).into_response()
        }
        Err(refusal) => refusal.into_response(),
    }
}
