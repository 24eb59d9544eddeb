//! Just enough HTTP for Prometheus and what watches over addresses: `GET` and `HEAD` of `/metrics`,
//! one request a connection.

use crate::metrics;
use crate::protocol::EndpointCounts;

/// Answers the head of a request.
pub(crate) fn answer(head: &[u8], counts: &EndpointCounts) -> Vec<u8> {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0")) =
        (words.next(), words.next(), words.next())
    else {
        return response(400, "not HTTP/1.1\n");
    };
    match method {
        "GET" => resource(target, counts),
        "HEAD" => without_body(resource(target, counts)),
        _ => response(405, "only GET and HEAD\n"),
    }
}

fn resource(target: &str, counts: &EndpointCounts) -> Vec<u8> {
    // A scraper may be set to send parameters: they change nothing.
    if target.split('?').next() != Some("/metrics") {
        return response(404, "there is only /metrics\n");
    }
    match metrics::render(counts) {
        Ok(text) => with_type(200, metrics::CONTENT_TYPE, &text),
        Err(error) => response(500, &format!("{error}\n")),
    }
}

/// The head says how long the body would be.
fn without_body(mut response: Vec<u8>) -> Vec<u8> {
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    response.truncate(end.map_or(0, |at| at + 4));
    response
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
    let allow = match status {
        405 => "Allow: GET, HEAD\r\n",
        _ => "",
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\n{allow}Content-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(head: &str) -> (String, String) {
        let response = answer(head.as_bytes(), &EndpointCounts::default());
        let text = String::from_utf8(response).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        (head.to_owned(), body.to_owned())
    }

    fn status(head: &str) -> String {
        let (head, body) = parts(head);
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{head}"
        );
        head.split(' ').nth(1).expect("a status").to_owned()
    }

    /// As load balancers and `curl -I` ask.
    #[test]
    fn head_is_answered_as_get_without_the_body() {
        for target in ["/", "/metrics"] {
            let (of_get, body) = parts(&format!("GET {target} HTTP/1.1\r\nHost: x"));
            let (of_head, nothing) = parts(&format!("HEAD {target} HTTP/1.1\r\nHost: x"));
            let line = |head: &str| head.lines().next().expect("a line").to_owned();
            assert_eq!(line(&of_head), line(&of_get));
            assert!(of_head.contains("Content-Length: "), "{of_head}");
            assert!(!body.is_empty() && nothing.is_empty(), "{nothing}");
        }
        let (refused, _) = parts("POST /metrics HTTP/1.1");
        assert!(refused.contains("Allow: GET, HEAD"), "{refused}");
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
