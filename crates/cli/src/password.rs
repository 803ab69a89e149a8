//! `transfix password`: hashes a password for the settings of an acceptor.

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;

/// Hash a password for the key `logon.expected_password_hash`.
///
/// At a terminal, the program asks for the password twice without showing it. Otherwise the
/// password is the first line of standard input. Standard output receives the Argon2id hash.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix password
  (umask 077; pass show fix/fund | transfix password > fund.hash)

In the settings:
  [session.logon]
  expected_password_hash = { file = \"fund.hash\" }

Exit code: 0 done, 1 failed, 2 no password, or two that differ.")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> ExitCode {
    let password = match read() {
        Ok(password) => password,
        Err(what) => {
            eprintln!("error: {what}");
            return ExitCode::from(2);
        }
    };
    match transfix::hash_password(&password) {
        Ok(hash) => {
            println!("{}", hash.reveal());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: the password could not be hashed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prompts for a password, or reads it from standard input.
pub(crate) fn read() -> Result<String, String> {
    let mut password = String::new();
    if io::stdin().is_terminal() {
        let ask = |prompt| rpassword::prompt_password(prompt).map_err(|e| e.to_string());
        password = ask("Password: ")?;
        if password != ask("Once more: ")? {
            return Err("the two passwords differ; run the command again".to_owned());
        }
    } else {
        let read = io::stdin().lock().read_line(&mut password);
        read.map_err(|error| format!("standard input: {error}"))?;
        let end = password.trim_end_matches(['\r', '\n']).len();
        password.truncate(end);
    }
    match password.chars().any(char::is_control) || password.is_empty() {
        false => Ok(password),
        true => Err("the password must not be empty or have control characters".to_owned()),
    }
}
