//! Engines of the Rust registry as acceptors for the common client:
//! `rust_acceptors ENGINE OPTION...`. `../../README.md` describes the options.

mod ironfix;
mod options;
mod quickfix_tokio;

use std::process::ExitCode;

use options::{Options, Outcome};

/// Starts the engine and prints its address.
async fn start(arguments: &[String]) -> Outcome<()> {
    let (engine, rest) = arguments.split_first().ok_or("usage: rust_acceptors ENGINE OPTION...")?;
    let options = Options::read(rest)?;
    let port = match engine.as_str() {
        "ironfix" => ironfix::start(&options).await?,
        "quickfix-tokio" => quickfix_tokio::start(&options).await?,
        _ => return Err(format!("no engine {engine}").into()),
    };
    println!("127.0.0.1:{port}");
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = start(&arguments).await {
        eprintln!("rust_acceptors: {error}");
        return ExitCode::from(2);
    }
    // The engines' tasks continue meanwhile.
    let ended =
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    let _ = ended.await;
    // Logging out all sessions would take seconds without any benefit.
    std::process::exit(0)
}
