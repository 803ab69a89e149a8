//! Error answers to HTTP requests, all in one form: `{"error": "…", "code": 1305}`.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use transfix::AdminError;

/// An error answer: its HTTP status and the reason.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    why: String,
    /// Number of the engine's error; `None` if the engine did not refuse the request.
    code: Option<u16>,
    retry_after_s: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), code: None, retry_after_s: None }
    }

    pub(crate) fn not_found(why: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, why)
    }

    pub(crate) fn bad(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }

    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    }

    pub(crate) fn later(why: impl Into<String>, seconds: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, why).again_after(seconds)
    }

    /// Sets the time after which the client may retry, in seconds, at least 1.
    pub(crate) fn again_after(self, seconds: u64) -> Self {
        Self { retry_after_s: Some(seconds.max(1)), ..self }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": self.why });
        if let Some(code) = self.code {
            body["code"] = code.into();
        }
        let mut response = (self.status, Json(body)).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer realm=\"transfix\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        response
    }
}

impl From<AdminError> for Refusal {
    fn from(error: AdminError) -> Self {
        let status = match &error {
            AdminError::NoSession(_) => StatusCode::NOT_FOUND,
            AdminError::Audit(_) => StatusCode::INSUFFICIENT_STORAGE,
            AdminError::NotTaken => StatusCode::NOT_IMPLEMENTED,
            AdminError::Late => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::CONFLICT,
        };
        Self { code: Some(error.as_u16()), ..Self::new(status, error.to_string()) }
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        let status = match rejection.status() {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            other => other,
        };
        Self::new(status, rejection.body_text())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad(rejection.body_text())
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Self::bad(rejection.body_text())
    }
}

/// Extractor of the JSON body of a request; a malformed body becomes a `Refusal`.
#[derive(FromRequest)]
#[from_request(via(Json), rejection(Refusal))]
pub(crate) struct Input<T>(pub(crate) T);

/// Extractor of the query string of a request; a malformed query string becomes a `Refusal`.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Refusal))]
pub(crate) struct Wanted<T>(pub(crate) T);

/// Extractor of the parameters in the path of a request; malformed parameters become a `Refusal`.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Refusal))]
pub(crate) struct Named<T>(pub(crate) T);
