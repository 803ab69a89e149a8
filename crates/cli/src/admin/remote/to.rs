//! Sends requests to a running engine over HTTP, and reads the answers.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs};

use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use crate::foreign;
use crate::input::failed;

/// Time limit for an answer of the engine.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(90);

/// Remedy in the error for a missing or unknown token.
const TOKEN: &str = "give a token with --token-file FILE or in TRANSFIX_ADMIN_TOKEN; `transfix \
                     admin token add NAME --role ROLE` makes a token";

/// The options that select the engine and identify the user.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct To {
    /// URL of the engine's administration.
    #[arg(long, env = "TRANSFIX_ADMIN_URL", default_value = "http://127.0.0.1:9890")]
    #[arg(value_name = "URL")]
    url: String,
    /// File with a token from `transfix admin token add`.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The token itself, accepted only from the environment: other users can see a command line.
    #[arg(long, env = "TRANSFIX_ADMIN_TOKEN", hide = true, hide_env_values = true)]
    token: Option<String>,
    /// For https: file with the certificate of the authority that signed the engine's certificate.
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// The reason why a command failed: a usage error or another failure.
pub(crate) enum Failure {
    Usage(String),
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Other(why) => f.write_str(why),
        }
    }
}

impl Failure {
    /// Prints the error and returns the exit code.
    pub(crate) fn exit(self) -> ExitCode {
        match self {
            Self::Usage(error) => failed(&error),
            Self::Other(error) => {
                eprintln!("transfix admin: {}", foreign::lines(&error));
                ExitCode::FAILURE
            }
        }
    }
}

/// The text to print, or the reason why the command failed.
pub(super) type Answer = Result<String, Failure>;

impl To {
    /// Requests all sessions from the engine.
    pub(crate) fn sessions(&self) -> Result<Vec<Value>, Failure> {
        let mut answer = self.json("GET", "/api/sessions", None)?;
        match answer["sessions"].take() {
            Value::Array(sessions) => Ok(sessions),
            _ => Err(Failure::Other(format!(
                "{}: the answer has no list of sessions; make sure \
                that the address is that of Transfix",
                self.url
            ))),
        }
    }

    pub(super) fn text_of(&self, mut answer: Response<Body>) -> Answer {
        let text = answer.body_mut().with_config().limit(1 << 30).read_to_string();
        text.map_err(|error| self.unreached(&error))
    }

    /// Requests one session with its latency from the engine.
    pub(crate) fn session(&self, id: &str) -> Result<Value, Failure> {
        self.json("GET", &format!("/api/sessions/{}", encoded(id)), None)
    }

    /// Sends a GET request for `path` and returns the answer as text.
    pub(super) fn text(&self, path: &str) -> Answer {
        self.text_of(self.ask("GET", path, None, Some(ANSWER_MAX))?)
    }

    /// Sends a request and returns the answer as JSON.
    pub(super) fn json(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let text = self.text_of(self.ask(method, path, body, Some(ANSWER_MAX))?)?;
        serde_json::from_str(&text).map_err(|_| {
            Failure::Other(format!(
                "{}: the answer is not JSON; make sure that the address is \
                                    that of Transfix",
                self.url
            ))
        })
    }

    pub(super) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        wait: Option<Duration>,
    ) -> Result<Response<Body>, Failure> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(wait)
            .tls_config(self.tls()?)
            .build();
        let agent = Agent::new_with_config(config);
        let url = format!("{}{path}", self.url.trim_end_matches('/'));
        let token = self.token()?;
        let mut request = ureq::http::Request::builder().method(method).uri(&url);
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let answer = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json");
                let request = request.body(body.to_string());
                agent.run(request.map_err(|error| Failure::Usage(error.to_string()))?)
            }
            None => {
                let request = request.body(());
                agent.run(request.map_err(|error| Failure::Usage(error.to_string()))?)
            }
        };
        let mut answer = answer.map_err(|error| self.unreached(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        let why = refusal(&text).unwrap_or_else(|| format!("{}: {status}", self.url));
        Err(Failure::Other(match status {
            StatusCode::UNAUTHORIZED => format!("{why}: {TOKEN}"),
            StatusCode::PRECONDITION_REQUIRED => with_option(&why),
            _ => why,
        }))
    }

    fn unreached(&self, error: &ureq::Error) -> Failure {
        Failure::Other(format!(
            "{}: {error}; make sure that the engine runs and has [admin] in its settings",
            self.url
        ))
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let Some(path) = &self.token_file else { return Ok(self.token.clone()) };
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        Ok(Some(text.trim().to_owned()))
    }

    fn tls(&self) -> Result<TlsConfig, Failure> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider);
        let Some(path) = &self.ca else {
            if self.url.starts_with("https:") {
                let why = "--ca FILE is missing; name the certificate of the authority that \
                           signed the engine's certificate";
                return Err(Failure::Usage(why.to_owned()));
            }
            return Ok(config.build());
        };
        let wrong =
            |error: &dyn fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
        let pem = fs::read(path).map_err(|error| wrong(&error))?;
        let authority = Certificate::from_pem(&pem).map_err(|error| wrong(&error))?;
        Ok(config.root_certs(RootCerts::new_with_certs(&[authority])).build())
    }
}

/// Rewrites the engine's demand for a confirmation as the option `--confirm` of the command line.
fn with_option(why: &str) -> String {
    let mut forms = [
        ("write \"confirm\": \"", "\" to "),
        ("add \"confirm\": \"", "\" to "),
        ("add confirm=", " to "),
    ]
    .into_iter();
    let said = forms.find_map(|(begin, end)| {
        let (before, rest) = why.split_once(begin)?;
        let (value, what) = rest.rsplit_once(end)?;
        Some(format!("{before}add --confirm '{value}' to {what}"))
    });
    said.unwrap_or_else(|| why.to_owned())
}

/// Returns the reason for a refusal from the JSON body of an answer.
fn refusal(text: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(text).ok()?;
    if let Some(why) = answer["why"].as_array() {
        let why: Vec<_> = why.iter().filter_map(Value::as_str).collect();
        return Some(format!("not ready: {}", why.join("; ")));
    }
    let why = answer["error"].as_str()?;
    Some(match answer["code"].as_u64() {
        Some(code) => format!("{why} ({code})"),
        None => why.to_owned(),
    })
}

/// Percent-encodes a text for use in a URL.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().fold(String::new(), |mut url, byte| {
        match plain(byte) {
            true => url.push(char::from(byte)),
            false => url += &format!("%{byte:02X}"),
        }
        url
    })
}
