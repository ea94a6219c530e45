//! A video to serve and play, generated and always the same.

use std::io::Write;

const WIDTH: usize = 128;
const HEIGHT: usize = 72;
const FRAMES_PER_S: usize = 25;
const SECONDS: usize = 60;

/// Returns the video as YUV4MPEG2: 60 s in colour at 25 frames a second, uncoded, which is 2.8 Mbit/s and 21 MB. Bars move over
/// a gradient, so that all frames differ.
pub(super) fn y4m() -> Vec<u8> {
    let frame = WIDTH * HEIGHT * 3 / 2;
    let mut out = Vec::with_capacity(FRAMES_PER_S * SECONDS * (frame + 6) + 64);
    // Writing to memory cannot fail.
    let _ = writeln!(
        out,
        "YUV4MPEG2 W{WIDTH} H{HEIGHT} F{FRAMES_PER_S}:1 Ip A1:1 C420jpeg"
    );
    for n in 0..FRAMES_PER_S * SECONDS {
        out.extend(b"FRAME\n");
        for y in 0..HEIGHT {
            for x in 0..WIDTH {
                let bar = (x + n) / 16 % 2 * 96;
                out.push((16 + bar + y + n / FRAMES_PER_S) as u8);
            }
        }
        for plane in 0..2 {
            for y in 0..HEIGHT / 2 {
                for x in 0..WIDTH / 2 {
                    out.push((64 + plane * 64 + (x + y + n * (plane + 1)) % 64) as u8);
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_as_long_as_it_says() {
        let video = super::y4m();
        let frames = video
            .windows(6)
            .filter(|bytes| *bytes == b"FRAME\n")
            .count();
        assert_eq!(frames, 1500);
        let head = video.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        assert_eq!(video.len() - head, 1500 * (6 + 128 * 72 * 3 / 2));
    }
}
