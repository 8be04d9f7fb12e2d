// Drives a server with JavaBeanstalkClient, as a program of its users would.

import com.surftools.BeanstalkClient.Client;
import com.surftools.BeanstalkClient.Job;
import com.surftools.BeanstalkClientImpl.ClientImpl;
import java.nio.charset.StandardCharsets;

public class Drive {
    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) {
        String[] address = arguments[0].split(":");
        Client client = new ClientImpl(address[0], Integer.parseInt(address[1]));
        client.useTube("invoices");
        check(client.listTubeUsed().equals("invoices"), "used");
        check(client.watch("invoices") == 2, "watched");
        check(client.ignore("default") == 1, "ignored");

        long first = client.put(9, 0, 60, bytes("first"));
        long second = client.put(3, 0, 60, bytes("second"));
        long later = client.put(1, 3600, 60, bytes("later"));
        check(client.peekReady().getJobId() == second, "the lower priority is first");
        check(client.peekDelayed().getJobId() == later, "one is delayed");

        Job job = client.reserve(5);
        check(job.getJobId() == second, "the lower priority comes first");
        check(new String(job.getData(), StandardCharsets.UTF_8).equals("second"), "its body");
        check(client.touch(second), "touched");
        check(client.release(second, 20, 0), "released");
        job = client.reserve(null);
        check(job.getJobId() == first, "released with a higher priority");
        check(client.bury(first, 4), "buried");
        check(client.peekBuried().getJobId() == first, "it is buried");
        check(client.kick(10) == 1, "kicked");
        check(client.kick(10) == 1, "and the delayed one");
        check(client.statsJob(first).get("kicks").equals("1"), "stats of a job");
        for (int left = 3; left > 0; left -= 1) {
            check(client.delete(client.reserve(5).getJobId()), "deleted");
        }
        check(client.reserve(0) == null, "there is none left");
        check(!client.delete(first), "it is gone");
        check(client.statsTube("invoices").get("total-jobs").equals("3"), "stats of a tube");
        check(client.stats().containsKey("current-connections"), "stats");
        check(client.listTubes().contains("invoices"), "tubes");
        check(client.getServerVersion().contains("1.13"), client.getServerVersion());
        client.close();
        System.out.println("JavaBeanstalkClient: fine");
    }
}
