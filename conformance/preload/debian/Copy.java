import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Sends a file to a server that sends all bytes back, with streams or with channels. */
public class Copy {
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[1]);
        switch (arguments[0]) {
            case "serve-streams" -> serveStreams(port);
            case "serve-channels" -> serveChannels(port);
            case "copy-streams" -> copyStreams(port, Path.of(arguments[2]), Path.of(arguments[3]));
            case "copy-channels" -> copyChannels(port, Path.of(arguments[2]), Path.of(arguments[3]));
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static InetSocketAddress at(int port) {
        return new InetSocketAddress("127.0.0.1", port);
    }

    private static void serveStreams(int port) throws Exception {
        try (ServerSocket listener = new ServerSocket()) {
            listener.bind(at(port));
            while (true) {
                Socket socket = listener.accept();
                new Thread(() -> {
                    try (socket) {
                        socket.getInputStream().transferTo(socket.getOutputStream());
                    } catch (Exception error) {
                        error.printStackTrace();
                    }
                }).start();
            }
        }
    }

    private static void copyStreams(int port, Path from, Path to) throws Exception {
        try (Socket socket = new Socket()) {
            socket.connect(at(port), 10_000);
            socket.setSoTimeout(60_000);
            Thread sender = new Thread(() -> {
                try (InputStream file = Files.newInputStream(from)) {
                    file.transferTo(socket.getOutputStream());
                    socket.shutdownOutput();
                } catch (Exception error) {
                    error.printStackTrace();
                }
            });
            sender.start();
            try (OutputStream file = Files.newOutputStream(to)) {
                socket.getInputStream().transferTo(file);
            }
            sender.join();
        }
    }

    private static void serveChannels(int port) throws Exception {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(at(port)).configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (true) {
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                if (key.isAcceptable()) {
                    SocketChannel accepted = listener.accept();
                    if (accepted != null) {
                        accepted.configureBlocking(false);
                        ByteBuffer buffer = ByteBuffer.allocateDirect(1 << 16);
                        accepted.register(selector, SelectionKey.OP_READ, buffer);
                    }
                } else {
                    echo(key);
                }
            }
            selector.selectedKeys().clear();
        }
    }

    /** Reads while the buffer is empty, and writes until it is. */
    private static void echo(SelectionKey key) throws Exception {
        SocketChannel channel = (SocketChannel) key.channel();
        ByteBuffer buffer = (ByteBuffer) key.attachment();
        if (key.isReadable() && channel.read(buffer) < 0) {
            channel.close();
            return;
        }
        buffer.flip();
        channel.write(buffer);
        key.interestOps(buffer.hasRemaining() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ);
        buffer.compact();
    }

    private static void copyChannels(int port, Path from, Path to) throws Exception {
        Selector selector = Selector.open();
        ByteBuffer received = ByteBuffer.allocateDirect(1 << 16);
        try (SocketChannel channel = SocketChannel.open();
                FileChannel file = FileChannel.open(from);
                FileChannel copy = FileChannel.open(to, StandardOpenOption.CREATE,
                        StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            channel.configureBlocking(false);
            channel.register(selector, SelectionKey.OP_CONNECT);
            channel.connect(at(port));
            for (long sent = 0;;) {
                selector.select(60_000);
                if (selector.selectedKeys().isEmpty()) {
                    throw new IllegalStateException("nothing came for a minute");
                }
                SelectionKey key = selector.selectedKeys().iterator().next();
                selector.selectedKeys().clear();
                if (key.isConnectable() && channel.finishConnect()) {
                    key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
                    continue;
                }
                if (key.isWritable()) {
                    sent += file.transferTo(sent, 1 << 18, channel);
                    if (sent == file.size()) {
                        channel.shutdownOutput();
                        key.interestOps(SelectionKey.OP_READ);
                    }
                }
                if (key.isReadable()) {
                    received.clear();
                    if (channel.read(received) < 0) {
                        return;
                    }
                    copy.write(received.flip());
                }
            }
        }
    }
}
