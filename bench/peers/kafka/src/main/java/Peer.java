import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/** The two standard views as a KTable of users, grouped by name and by city. */
public final class Peer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TOPIC = "users";

    /** A document. The key of its record is its id. */
    @JsonIgnoreProperties(ignoreUnknown = true)
    public static final class User {
        public long id;
        public String name;
        public String city;
        public long amount;
        public boolean deleted;
    }

    /** The row of a city. */
    public static final class Sum {
        public long n;
        public long total;

        Sum plus(long sign, long amount) {
            Sum out = new Sum();
            out.n = n + sign;
            out.total = total + sign * amount;
            return out;
        }
    }

    private static <T> Serde<T> serde(Class<T> kind) {
        ObjectReader reader = JSON.readerFor(kind);
        ObjectWriter writer = JSON.writerFor(kind);
        return Serdes.serdeFrom(
            (topic, value) -> {
                try {
                    return value == null ? null : writer.writeValueAsBytes(value);
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            },
            (topic, bytes) -> {
                try {
                    return bytes == null ? null : reader.readValue(bytes);
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            });
    }

    private static void say(String word, BufferedReader answers) throws IOException {
        System.out.println(word);
        System.out.flush();
        if (answers.readLine() == null) {
            System.exit(1);
        }
    }

    /** Fill the topic, and return the document that wins for each id. */
    private static Map<Long, User> filled(String servers, List<String> lines) throws Exception {
        Properties options = new Properties();
        options.put("bootstrap.servers", servers);
        try (Admin admin = Admin.create(options)) {
            admin.createTopics(List.of(new NewTopic(TOPIC, 1, (short) 1))).all().get();
        }
        options.put("linger.ms", "20");
        options.put("batch.size", "262144");
        Map<Long, User> last = new HashMap<>();
        ObjectReader reader = JSON.readerFor(User.class);
        try (var producer = new KafkaProducer<>(options, new LongSerializer(), new ByteArraySerializer())) {
            for (String line : lines) {
                User user = reader.readValue(line);
                if (user.deleted) {
                    last.remove(user.id);
                } else {
                    last.put(user.id, user);
                }
                byte[] value = user.deleted ? null : line.getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(TOPIC, user.id, value));
            }
        }
        return last;
    }

    private static StreamsBuilder topology() {
        StreamsBuilder builder = new StreamsBuilder();
        Serde<User> users = serde(User.class);
        KTable<Long, User> table = builder.table(TOPIC, Consumed.with(Serdes.Long(), users), Materialized.as("table"));
        table.groupBy((id, user) -> KeyValue.pair(user.name, user), Grouped.with(Serdes.String(), users))
            .count(Materialized.as("by_name"));
        table.groupBy((id, user) -> KeyValue.pair(user.city, user), Grouped.with(Serdes.String(), users))
            .aggregate(
                Sum::new,
                (city, user, sum) -> sum.plus(1, user.amount),
                (city, user, sum) -> sum.plus(-1, user.amount),
                Materialized.<String, Sum, KeyValueStore<Bytes, byte[]>>as("by_city").withValueSerde(serde(Sum.class)));
        return builder;
    }

    private static <V> ReadOnlyKeyValueStore<String, V> store(KafkaStreams streams, String name) {
        return streams.store(StoreQueryParameters.fromNameAndType(name, QueryableStoreTypes.keyValueStore()));
    }

    /** Return the rows of both views, as lines. */
    private static Map<String, String> rows(KafkaStreams streams) {
        Map<String, String> out = new HashMap<>();
        try (var all = Peer.<Long>store(streams, "by_name").all()) {
            all.forEachRemaining(row -> out.put("by_name\t" + row.key, "" + row.value));
        }
        try (var all = Peer.<Sum>store(streams, "by_city").all()) {
            all.forEachRemaining(row -> out.put("by_city\t" + row.key, row.value.n + "\t" + row.value.total));
        }
        out.values().removeIf(value -> value.equals("0") || value.startsWith("0\t"));
        return out;
    }

    /** Return the rows that the views must have at the end, by which the program knows when to stop. */
    private static Map<String, String> expected(Map<Long, User> last) {
        Map<String, Sum> sums = new HashMap<>();
        for (User user : last.values()) {
            sums.merge("by_name\t" + user.name, new Sum().plus(1, 0), (old, one) -> old.plus(1, 0));
            Sum first = new Sum().plus(1, user.amount);
            sums.merge("by_city\t" + user.city, first, (old, one) -> old.plus(1, one.total));
        }
        Map<String, String> out = new HashMap<>();
        sums.forEach((group, sum) -> out.put(group, group.startsWith("by_name") ? "" + sum.n : sum.n + "\t" + sum.total));
        return out;
    }

    private static Properties options(String servers, String setting, String folder) {
        Properties options = new Properties();
        options.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer");
        options.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        options.put(StreamsConfig.STATE_DIR_CONFIG, folder + "/state");
        options.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        options.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        options.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 256L << 20);
        options.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        boolean exact = setting.equals("recovery");
        options.put(
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
            exact ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
        return options;
    }

    public static void main(String[] given) throws Exception {
        String servers = given[0];
        BufferedReader answers = new BufferedReader(new InputStreamReader(System.in));
        Map<String, String> wanted = expected(filled(servers, Files.readAllLines(Path.of(given[5]))));
        KafkaStreams streams = new KafkaStreams(topology().build(), options(servers, given[3], given[6]));
        say("ready", answers);
        streams.start();
        while (streams.state() != KafkaStreams.State.RUNNING) {
            Thread.sleep(20);
        }
        while (!rows(streams).equals(wanted)) {
            Thread.sleep(100);
        }
        say("done {\"version\": \"4.1.1\"}", answers);
        try (PrintWriter out = new PrintWriter(given[7], StandardCharsets.UTF_8)) {
            rows(streams).forEach((group, value) -> out.println(group + "\t" + value));
        }
        streams.close(Duration.ofSeconds(10));
    }
}
