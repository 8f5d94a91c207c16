import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.jsoup.Jsoup;
import org.jsoup.internal.StringUtil;
import org.jsoup.nodes.Document;
import org.jsoup.nodes.Element;

/** Writes what jsoup selects on the pages: golden.tsv, and the absolute addresses of links: links.tsv. */
public class Golden {
    static final String BASE = "http://example.test/docs/page.html";

    public static void main(String[] args) throws Exception {
        List<String> selectors = Files.readAllLines(Path.of("selectors.txt"));
        try (PrintStream golden = out("golden.tsv"); PrintStream links = out("links.tsv")) {
            for (Path path : pages()) {
                Document page = parse(path);
                for (String line : selectors) {
                    golden.println(path.getFileName() + "\t" + line + "\t" + row(found(page, line)));
                }
                page.select("[href], [src]").stream().limit(60).forEach(element -> links.println(link(path, element)));
            }
        }
    }

    static List<Path> pages() throws IOException {
        try (var files = Files.list(Path.of("pages"))) {
            return files.filter(file -> file.toString().endsWith(".html")).sorted().toList();
        }
    }

    static Document parse(Path path) throws IOException {
        try (InputStream bytes = Files.newInputStream(path)) {
            Document page = Jsoup.parse(bytes, null, BASE);
            page.select("title").forEach(title -> title.text(StringUtil.normaliseWhitespace(title.wholeText()).trim()));
            return page;
        }
    }

    /** The elements of "selector", or of "segments >>> selector" inside each segment; the scope itself left out. */
    static List<Element> found(Document page, String line) {
        String[] parts = line.split(" >>> ");
        List<Element> scopes = parts.length > 1 ? page.select(parts[0]) : List.of((Element) page);
        List<Element> found = new ArrayList<>();
        for (Element scope : scopes) {
            scope.select(parts[parts.length - 1]).stream().filter(element -> element != scope).forEach(found::add);
        }
        return found;
    }

    /** Number of elements, a digest of their names and texts, the first text. */
    static String row(List<Element> found) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (Element element : found) {
            digest.update((element.normalName() + "\t" + element.text() + "\n").getBytes(StandardCharsets.UTF_8));
        }
        String first = found.isEmpty() ? "" : shown(found.get(0).text());
        return found.size() + "\t" + HexFormat.of().formatHex(digest.digest(), 0, 8) + "\t" + first;
    }

    static String shown(String text) {
        String line = text.replaceAll("\\s", " ");
        return line.substring(0, Math.min(60, line.length()));
    }

    static String link(Path path, Element element) {
        String name = element.hasAttr("href") ? "href" : "src";
        return path.getFileName() + "\t" + element.attr(name) + "\t" + element.absUrl(name);
    }

    static PrintStream out(String name) throws IOException {
        return new PrintStream(Files.newOutputStream(Path.of(name)), false, StandardCharsets.UTF_8);
    }
}
