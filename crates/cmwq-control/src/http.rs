//! Just enough HTTP for Prometheus: `GET /metrics`, one request a connection.

use crate::metrics;
use crate::protocol::EndpointCounts;

/// Answers the head of a request.
pub(crate) fn answer(head: &[u8], counts: &EndpointCounts) -> Vec<u8> {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    match (words.next(), words.next(), words.next()) {
        // A scraper may be set to send parameters: they change nothing.
        (Some("GET"), Some(target), Some("HTTP/1.1" | "HTTP/1.0"))
            if target.split('?').next() == Some("/metrics") =>
        {
            match metrics::render(counts) {
                Ok(text) => with_type(200, metrics::CONTENT_TYPE, &text),
                Err(error) => response(500, &format!("{error}\n")),
            }
        }
        (Some("GET"), Some(_), Some("HTTP/1.1" | "HTTP/1.0")) => {
            response(404, "there is only /metrics\n")
        }
        (Some(_), Some(_), Some("HTTP/1.1" | "HTTP/1.0")) => response(405, "only GET\n"),
        _ => response(400, "not HTTP/1.1\n"),
    }
}

/// A whole response of plain text.
pub(crate) fn response(status: u16, text: &str) -> Vec<u8> {
    with_type(status, "text/plain; charset=utf-8", text)
}

fn with_type(status: u16, content_type: &str, text: &str) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> String {
        let response = answer(head.as_bytes(), &EndpointCounts::default());
        let text = String::from_utf8(response).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{head}"
        );
        head.split(' ').nth(1).expect("a status").to_owned()
    }

    #[test]
    fn only_the_metrics_are_there() {
        assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: x"), "200");
        assert_eq!(status("GET / HTTP/1.1"), "404");
        assert_eq!(status("POST /metrics HTTP/1.1"), "405");
        for garbage in [
            "",
            "GET",
            "GET /metrics",
            "GET /metrics HTTP/2",
            "\u{0}\u{1}",
            "{}",
        ] {
            assert_eq!(status(garbage), "400", "{garbage:?}");
        }
    }
}
