//! The console, and what describes the rest: files that are part of the program.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use transfix::Origin;

use crate::app::App;

/// Path, type and content of each.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("assets/index.html")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("assets/app.js")),
    ("/style.css", "text/css; charset=utf-8", include_str!("assets/style.css")),
];

pub(crate) fn routes() -> Router<Arc<App>> {
    FILES.iter().fold(Router::new(), |router, (path, kind, text)| {
        router.route(path, get(move || async move { file(kind, text) }))
    })
}

fn file(kind: &'static str, text: &'static str) -> Response {
    // A new version of the program brings new ones.
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")];
    (StatusCode::OK, headers, text).into_response()
}

pub(crate) async fn openapi() -> Response {
    file("application/json", include_str!("assets/openapi.json"))
}

/// Where a value of the settings comes from, in words.
pub(crate) fn origin(origin: &Origin) -> String {
    match origin {
        Origin::File(place) => place.clone(),
        Origin::Defaults(place) => format!("[defaults] {place}"),
        _ => "default".to_owned(),
    }
}
