//! `transfix tls check`: connects to a counterparty, shows its certificates, and explains the first
//! TLS error.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use transfix::tls::{Certificate, Inspection, inspect};
use transfix::{Timestamp, TlsSettings, TlsVersion, clock};

use crate::foreign::Foreign;
use crate::input::{answered, failed};

const EXAMPLES: &str = "\
Examples:
  transfix tls check fix.broker.example:4001
  transfix tls check fix.broker.example:4001 --ca broker-ca.pem
  transfix tls check 10.0.0.7:4001 --ca ca.pem --server-name fix.broker.example \\
      --certificate own.pem --key own.key

The options correspond to the keys of `tls` in the settings of a session. No FIX message is sent.

Exit code: 0 the connection would be encrypted, 1 the handshake failed, and the last line shows the
reason, 2 wrong usage.";

/// Check the TLS connection to a counterparty.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 done, 1 an error was found, 2 wrong usage.")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Perform a TLS handshake with a counterparty, show its certificates, and explain the first
    /// problem.
    Check(Check),
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct Check {
    /// Address of the counterparty, as host:port.
    #[arg(value_parser = address)]
    address: String,
    /// PEM file with the certificates of the trusted authorities. Default: the authorities of the
    /// system.
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// PEM file with lists of revoked certificates.
    #[arg(long, value_name = "FILE")]
    crl: Vec<PathBuf>,
    /// Your own certificate, sent if the counterparty requests a certificate.
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Private key of your own certificate.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// The name that the counterparty's certificate must have. Default: the host of the address.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    server_name: String,
    /// A name or `sha256:` fingerprint of a certificate that is accepted from the counterparty.
    #[arg(long, value_name = "CERTIFICATE")]
    peer: Vec<String>,
    /// The lowest accepted version of TLS.
    #[arg(long, value_name = "VERSION", value_parser = ["1.2", "1.3"], default_value = "1.2")]
    min_version: String,
    /// Seconds to wait for the counterparty.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = seconds())]
    timeout: u64,
}

/// Checks that the text has the form `host:port`. The host name is resolved later.
fn address(text: &str) -> Result<String, String> {
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(format!("the address has no port; write host:port, such as {text}:4001"));
    };
    match port.parse::<u16>() {
        Ok(1..) if !host.is_empty() => Ok(text.to_owned()),
        Ok(1..) => {
            Err(format!("the address has no host; write host:port, such as localhost:{port}"))
        }
        _ => Err(format!("the port must be 1 to 65535, not `{port}`")),
    }
}

fn seconds() -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=3_600)
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let Verb::Check(check) = &args.verb;
    let mut settings = TlsSettings::default();
    settings.ca.clone_from(&check.ca);
    settings.crl.clone_from(&check.crl);
    settings.certificate.clone_from(&check.certificate);
    settings.key.clone_from(&check.key);
    settings.server_name.clone_from(&check.server_name);
    settings.peer.clone_from(&check.peer);
    settings.min_version =
        if check.min_version == "1.3" { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
    let time = Duration::from_secs(check.timeout);
    let (seen, fault) = match inspect(&check.address, &settings, time) {
        Ok(seen) => {
            let fault = seen.fault.clone();
            (seen, fault)
        }
        Err((seen, why)) => (seen, Some(why)),
    };
    let told = answered(&text(&check.address, &seen));
    match fault {
        Some(why) => {
            failed(&why);
            ExitCode::FAILURE
        }
        None => told,
    }
}

fn text(address: &str, seen: &Inspection) -> String {
    let mut text = String::new();
    if !seen.protocol.is_empty() {
        let _ = writeln!(text, "{address}: {}", seen.protocol);
    }
    for (n, certificate) in seen.chain.iter().enumerate() {
        describe(&mut text, n + 1, certificate);
    }
    if seen.fault.is_none() && !seen.protocol.is_empty() {
        text.push_str("The connection of a session would be encrypted.\n");
    }
    text
}

fn describe(text: &mut String, n: usize, certificate: &Certificate) {
    let Certificate { subject, issuer, names, sha256, .. } = certificate;
    let (from, to) = (moment(certificate.not_before_s), moment(certificate.not_after_s));
    let now_s = clock::now().utc.0 / 1_000_000_000;
    let days = (certificate.not_after_s - now_s).div_euclid(24 * 60 * 60);
    let left = if days < 0 { "expired".to_owned() } else { format!("{days} days left") };
    let names: Vec<_> = names.iter().map(|name| Foreign(name).to_string()).collect();
    let _ = writeln!(text, "{n}. {}", Foreign(subject));
    let _ = writeln!(text, "   signed by    {}", Foreign(issuer));
    let _ = writeln!(text, "   names        {}", names.join(", "));
    let _ = writeln!(text, "   valid        {from} to {to} ({left})");
    let _ = writeln!(text, "   fingerprint  sha256:{sha256}");
}

/// Formats a time in UTC; times after the year 2262 are not supported.
fn moment(unix_s: i64) -> String {
    match unix_s.checked_mul(1_000_000_000) {
        Some(ns) => Timestamp(ns).to_string()[..17].to_owned(),
        None => "a time after 2262".to_owned(),
    }
}
