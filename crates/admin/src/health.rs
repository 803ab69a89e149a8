//! Health checks of the process: liveness and readiness.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use transfix::{SessionStatus, clock};

use crate::app::{App, blocking};
use crate::shown::is_open;

/// Answers that the process is alive.
pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "live": true }))
}

/// Returns the reasons why the engine is not ready, or an empty list.
///
/// The engine is ready if it has sessions or listeners, its listeners accept connections, and no
/// open session's store has failed. Logons do not count, because they depend on counterparties. The
/// reasons name no session, because the health check needs no login.
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
        why.push(format!("sessions with a store that cannot be written: {failed}"));
    }
    // A reload opens and closes listeners, so the current listeners count, not those of the
    // settings.
    let listens = !app.admin.listening().is_empty();
    if listens && !app.admin.accepts() {
        why.push("the engine accepts no connections".to_owned());
    }
    if handles.is_empty() && !listens {
        why.push("the engine has no session and no listener".to_owned());
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
