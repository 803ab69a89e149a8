//! Serves the files built into the program: the console and `openapi.json`.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use transfix::Origin;

use crate::app::App;

macro_rules! script {
    ($name:literal) => {
        (
            concat!("/", $name, ".js"),
            "text/javascript; charset=utf-8",
            include_str!(concat!("assets/", $name, ".js")),
        )
    };
}

/// Path, content type and content of each file.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("assets/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("assets/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    script!("app"),
    script!("actions"),
    script!("api"),
    script!("audit"),
    script!("certificates"),
    script!("codes"),
    script!("dialog"),
    script!("dom"),
    script!("engine"),
    script!("events"),
    script!("fleet"),
    script!("format"),
    script!("grid"),
    script!("keys"),
    script!("live"),
    script!("login"),
    script!("messages"),
    script!("session"),
    script!("sessions"),
    script!("settings"),
];

pub(crate) fn routes() -> Router<Arc<App>> {
    FILES.iter().fold(Router::new(), |router, (path, kind, text)| {
        router.route(path, get(move || async move { file(kind, text) }))
    })
}

fn file(kind: &'static str, text: &'static str) -> Response {
    // Browsers must revalidate the files, because a new version of the program contains new ones.
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")];
    (StatusCode::OK, headers, text).into_response()
}

pub(crate) async fn openapi() -> Response {
    file("application/json", include_str!("assets/openapi.json"))
}

/// Describes where a settings value comes from: a file and line, `[defaults]`, or the default.
pub(crate) fn origin(origin: &Origin) -> String {
    match origin {
        Origin::File(place) => place.clone(),
        Origin::Defaults(place) => format!("[defaults] {place}"),
        _ => "default".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_imports_is_served() {
        let all: String = FILES.iter().map(|(_, _, text)| *text).collect();
        let imports =
            all.lines().filter_map(|line| line.rsplit_once(" from \"")?.1.split('"').next());
        let links = all.split(['"', '\'']).filter(|part| {
            part.starts_with('/') && [".js", ".css", ".svg"].iter().any(|end| part.ends_with(end))
        });
        let mut count = 0;
        for path in imports.chain(links) {
            assert!(FILES.iter().any(|(served, ..)| *served == path), "{path} is not in FILES");
            count += 1;
        }
        assert!(count > 20, "{count}");
    }

    #[test]
    fn nothing_is_made_html_and_nothing_is_loaded_from_elsewhere() {
        for (path, _, text) in FILES.iter().filter(|(path, ..)| path.ends_with(".js")) {
            for word in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("] {
                assert!(!text.contains(word), "{path}: {word}");
            }
            let addresses = text.matches("://").count();
            let names = text.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(addresses, names, "{path}: the name of SVG is no address");
        }
    }
}
