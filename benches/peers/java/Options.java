/** What a run is asked for. Times in milliseconds unless the name says otherwise. */
final class Options {
    String peer;
    String lap;
    String mode;
    int issuers = 1;
    int workers = Runtime.getRuntime().availableProcessors();
    /** Longer than elsewhere: the compiler has to see the loop first. */
    long warmupMs = 1500;
    long timeMs = 1000;
    int items = 200_000;
    int spin = 10_000;
    int samples = 1_000;
    int periodUs = 2_000;

    static Options parse(String[] arguments) {
        if (arguments.length < 3) {
            throw new IllegalArgumentException("expected: list, or PEER LOOP MODE [key=value]...");
        }
        Options options = new Options();
        options.peer = arguments[0];
        options.lap = arguments[1];
        options.mode = arguments[2];
        for (int index = 3; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            if (setting.length != 2 || !setting[1].matches("[1-9][0-9]{0,8}")) {
                throw new IllegalArgumentException("'" + arguments[index] + "': expected key=value, the value a whole number above 0");
            }
            options.set(setting[0], Integer.parseInt(setting[1]));
        }
        return options;
    }

    private void set(String key, int number) {
        switch (key) {
            case "issuers" -> issuers = number;
            case "workers" -> workers = number;
            case "warmup_ms" -> warmupMs = number;
            case "time_ms" -> timeMs = number;
            case "items" -> items = number;
            case "spin" -> spin = number;
            case "samples" -> samples = number;
            case "period_us" -> periodUs = number;
            default -> throw new IllegalArgumentException("'" + key
                    + "': expected issuers, workers, warmup_ms, time_ms, items, spin, samples or period_us");
        }
    }
}
